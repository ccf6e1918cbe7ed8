package shadow

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/placement/shadow/difference"
)

// errTooLarge reports an answer of more than maxCaptured bytes.
var errTooLarge = errors.New("the answer is too large")

// The shadow's own work must not delay the requests that it forwards: it must not take the processor from them, nor the
// original.
const (
	workPause       = 3 // how many times as long as a comparison, or an answer of the original, took the shadow waits
	maxComparePause = 50 * time.Millisecond
	maxAskPause     = 5 * time.Second
)

// pauseAfterCompare returns how long no comparison begins after one that took a time.
func pauseAfterCompare(took time.Duration) time.Duration { return min(workPause*took, maxComparePause) }

// compare compares the original's answer with Berth's. Berth's index may be older than the original's answer; so it is
// asked again once it has what others have written.
func (s *Shadow) compare(ctx context.Context, one job) {
	for i := range 2 {
		if i == 1 && s.synchronize(ctx) != nil {
			break
		}
		ours, err := s.askBerth(ctx, one, one.target)
		if errors.Is(err, errTooLarge) {
			break
		}
		if err != nil {
			s.skip(one, berthFailed)
			return
		}
		if result := s.differences(one.target, one.answer, ours); len(result.Differences) == 0 {
			s.recorder.equal(result.Known)
			s.compareTrees(one, ours)
			return
		}
	}
	s.waiting.Add(int64(len(one.answer.Body))) // this queue's reservation ends with this job
	s.enqueue(s.doubted, one)
}

// compareTrees continues with the trees of the candidates of two limited answers, which have been compared in part. It
// does nothing while the queue of the trees is full.
func (s *Shadow) compareTrees(one job, ours difference.Answer) {
	if one.derived || len(s.doubted) == cap(s.doubted) {
		return
	}
	for _, target := range difference.Trees(one.target, s.berth.Load().Limit, one.answer, ours, 1) {
		s.enqueue(s.doubted, job{target: target, host: one.host, header: one.header, derived: true})
	}
}

// differences compares two answers.
func (s *Shadow) differences(target string, theirs, ours difference.Answer) difference.Result {
	return difference.Compare(target, theirs, ours, difference.Options{Prefix: s.options.Original.Path,
		Limit: s.berth.Load().Limit})
}

func (s *Shadow) synchronize(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Times.Answer)
	defer cancel()
	return s.berth.Load().Synchronize(ctx)
}

// askBerth sends the GET of a job, to any target, to Berth.
func (s *Shadow) askBerth(ctx context.Context, one job, target string) (difference.Answer, error) {
	return s.ask(ctx, rest.InMemory(s.berth.Load().Handler), "http://berth", one, target)
}

// askOriginal sends the GET of a job, to any target, to the original. Only the confirmer calls it.
func (s *Shadow) askOriginal(ctx context.Context, one job, target string) (difference.Answer, error) {
	if !sleep(ctx, s.options.Times.Pause) {
		return difference.Answer{}, ctx.Err()
	}
	began := time.Now()
	answer, err := s.ask(ctx, s.original, s.options.Original.String(), one, target)
	s.asked = time.Since(began)
	return answer, err
}

// ask sends the GET of a job and reads the answer.
func (s *Shadow) ask(ctx context.Context, client *http.Client, base string, one job, target string) (
	a difference.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Times.Answer)
	defer cancel()
	at, err := url.Parse(base + target)
	if err != nil {
		return a, err
	}
	request := (&http.Request{Method: http.MethodGet, URL: at, Host: one.host, Header: one.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	request.Header.Del("Accept-Encoding")
	response, err := client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a = difference.Answer{Status: response.StatusCode, Header: response.Header}
	if a.Body, err = io.ReadAll(io.LimitReader(response.Body, maxCaptured+1)); err != nil {
		return a, err
	}
	if len(a.Body) > maxCaptured {
		return a, errTooLarge
	}
	return a, nil
}

// identifiers matches what differs between requests of one kind: UUIDs and numbers.
var identifiers = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9]+`)

// kindOf returns a text that is equal for differences of the same form of requests at the same place.
func kindOf(one job, result difference.Result) string {
	path, query, _ := strings.Cut(one.target, "?")
	names := []string{}
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return identifiers.ReplaceAllString(path+"?"+strings.Join(names, "&"), "*") + " " + placeOf(result.Differences[0])
}

// placeOf returns where a difference is, without identifiers.
func placeOf(line string) string {
	where, _, _ := strings.Cut(line, ": ")
	return identifiers.ReplaceAllString(where, "*")
}

// hasPlace reports whether one of the differences is at a place.
func hasPlace(result difference.Result, place string) bool {
	return slices.ContainsFunc(result.Differences, func(line string) bool { return placeOf(line) == place })
}
