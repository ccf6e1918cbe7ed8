package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/openberth/berth/cli"
)

// interrupted is the cause of a context that ended with a signal. It is also context.Canceled.
type interrupted struct{ signal os.Signal }

// Error returns the sentence for the user.
func (i interrupted) Error() string { return "interrupted by signal: " + i.signal.String() }

// Is reports whether target is context.Canceled.
func (i interrupted) Is(target error) bool { return target == context.Canceled }

// untilSignal returns a context that ends with the first SIGINT or SIGTERM.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case got := <-signals:
			cancel(interrupted{got})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// exitStatus returns the exit status of a command that failed: 128 plus the number of the signal if the signal is why
// it failed, as shells expect.
func exitStatus(ctx context.Context, err error) int {
	var by interrupted
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &by) {
		if number, ok := by.signal.(syscall.Signal); ok {
			return 128 + int(number)
		}
	}
	var withStatus *cli.StatusError
	if errors.As(err, &withStatus) {
		return withStatus.Status
	}
	return statusFailed
}

// withInterruption returns the sentence about an error of an interrupted command, instead of the error of the
// connection or the query that the interruption has ended.
func withInterruption(ctx context.Context, err error) error {
	var waiting *cli.StoppedWaiting
	if !errors.Is(err, context.Canceled) || context.Cause(ctx) == nil {
		return err
	}
	if errors.As(err, &waiting) {
		return waiting
	}
	return errors.New(context.Cause(ctx).Error() + "; a request that was sent before may still be carried out")
}
