package loop

import (
	"context"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// answerConsoles answers the console requests of a line that this stream has not answered yet. A request changes
// nothing that the agent keeps, so that no decision of the state machine precedes it.
func (a *Agent) answerConsoles(ctx context.Context, requests []host.ConsoleRequest, answered map[string]bool) {
	for _, r := range requests {
		if answered[r.ID] {
			continue
		}
		answered[r.ID] = true
		if r.Interactive {
			go a.serveConsole(ctx, r)
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			err := a.o.Compute.PutConsole(ctx, a.o.Host, r.ID, a.console(ctx, r))
			if err != nil && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
				a.log.Warn("console not sent", "guest", r.Guest, "error", err)
			}
		}()
	}
}

// console returns the answer to a console request.
func (a *Agent) console(ctx context.Context, r host.ConsoleRequest) host.ConsoleOutput {
	if r.Diagnostics {
		return diagnostics(ctx, a.o.Hypervisor, r)
	}
	if r.CrashDump {
		return crashDump(ctx, a.o.Hypervisor, r)
	}
	driver, ok := a.o.Hypervisor.(hypervisor.Consoles)
	if !ok {
		return host.ConsoleOutput{Refused: "the hypervisor of the host keeps no consoles"}
	}
	text, err := driver.Console(ctx, r.Guest, min(r.Bytes, host.MaxConsole))
	if err != nil {
		return host.ConsoleOutput{Refused: fault.TextOf(err)}
	}
	return host.ConsoleOutput{Output: strings.ToValidUTF8(string(text), "\uFFFD")}
}
