package shadow

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/placement/shadow/difference"
)

const (
	confirmations = 2  // how often a difference must be seen, one time after the other
	attempts      = 6  // to see it that often
	enough        = 50 // differences of one kind that are confirmed; further ones are counted without asking
	maxSteps      = 64 // requests of which the smallest one is found
)

// pair is two answers to one request, between which nothing was written that the answers depend on.
type pair struct {
	theirs, ours difference.Answer
	result       difference.Result
}

// errChanged reports that the original's answer changed while Berth was asked.
var errChanged = errors.New("the original's answer changed")

// confirm asks both again and reports the difference if it is there again.
func (s *Shadow) confirm(ctx context.Context, one job) {
	seen, last := 0, pair{}
	for i := 0; seen < confirmations; i++ {
		if i == attempts {
			s.skip(one, changedAgain)
			return
		}
		if i > 0 && !sleep(ctx, s.options.Times.Settle) {
			return
		}
		p, err := s.askBoth(ctx, one, one.target)
		if err != nil && !errors.Is(err, errChanged) {
			s.skip(one, askedInVain)
			return
		}
		expired := p.theirs.Status == http.StatusUnauthorized && one.answer.Status != http.StatusUnauthorized
		switch {
		case expired:
			s.skip(one, tokenExpired)
			return
		case err != nil:
			seen = 0
		case len(p.result.Differences) == 0:
			if !one.derived { // a derived query was counted with the limited one
				s.recorder.equal(p.result.Known)
			}
			return
		default:
			seen++
			last = p
			if kind := kindOf(one, p.result); s.recorder.listed(kind) >= enough {
				s.recorder.repeat(kind)
				return
			}
		}
	}
	s.report(ctx, one, last)
}

// askBoth pauses, and asks the original, Berth, and the original again. It returns errChanged if the original's answers
// differ.
func (s *Shadow) askBoth(ctx context.Context, one job, target string) (p pair, err error) {
	if !sleep(ctx, min(workPause*s.asked, maxAskPause)) {
		return p, ctx.Err()
	}
	if p.theirs, err = s.askOriginal(ctx, one, target); err != nil {
		return p, err
	}
	if err := s.synchronize(ctx); err != nil {
		return p, err
	}
	if p.ours, err = s.askBerth(ctx, one, target); err != nil && !errors.Is(err, errTooLarge) {
		return p, err
	}
	p.result = s.differences(target, p.theirs, p.ours)
	if len(p.result.Differences) == 0 {
		return p, nil
	}
	again, err := s.askOriginal(ctx, one, target)
	if err == nil && len(s.differences(target, p.theirs, again).Differences) > 0 {
		err = errChanged
	}
	return p, err
}

// report adds a confirmed difference to the report, the first of its kind with the smallest request that shows it.
func (s *Shadow) report(ctx context.Context, one job, p pair) {
	kind := kindOf(one, p.result)
	if s.recorder.repeat(kind) > 0 || s.recorder.unlisted() {
		return
	}
	place := placeOf(p.result.Differences[0])
	smallest := s.minimise(ctx, one, place)
	if smallest != one.target {
		if again, err := s.askBoth(ctx, one, smallest); err == nil && hasPlace(again.result, place) {
			p = again
		} else {
			smallest = one.target
		}
	}
	s.recorder.add(Difference{Kind: kind, Target: one.target, Smallest: smallest,
		Version: one.header.Get("Openstack-Api-Version"), Lines: p.result.Differences,
		Original: excerptOf(p.theirs), Berth: excerptOf(p.ours)})
	if err := s.recorder.write(); err != nil {
		s.options.Log.Error("report not written, will retry", "error", err)
	}
	s.options.Log.Warn("answer differs from the original's", "target", smallest, "first", p.result.Differences[0])
}

// minimise removes parameters of a target, and items of their values, while the answers still differ at a place.
func (s *Shadow) minimise(ctx context.Context, one job, place string) string {
	smallest, steps := one.target, 0
	for again := true; again; {
		again = false
		for _, next := range smaller(smallest) {
			if steps++; steps > maxSteps || ctx.Err() != nil {
				return smallest
			}
			if p, err := s.askBoth(ctx, one, next); err == nil && hasPlace(p.result, place) {
				smallest, again = next, true
				break
			}
		}
	}
	return smallest
}

// smaller returns the targets without one parameter, and without one item of a parameter's list.
func smaller(target string) (list []string) {
	path, query, has := strings.Cut(target, "?")
	if !has {
		return nil
	}
	pairs := strings.Split(query, "&")
	join := func(pairs []string) string {
		if len(pairs) == 0 {
			return path
		}
		return path + "?" + strings.Join(pairs, "&")
	}
	for i := range pairs {
		list = append(list, join(slices.Delete(slices.Clone(pairs), i, i+1)))
	}
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		separator := ","
		if !strings.Contains(value, ",") {
			separator = "%2C"
		}
		items := strings.Split(value, separator)
		for j := range items {
			if len(items) > 1 {
				fewer := slices.Clone(pairs)
				fewer[i] = name + "=" + strings.Join(slices.Delete(slices.Clone(items), j, j+1), separator)
				list = append(list, join(fewer))
			}
		}
	}
	return list
}
