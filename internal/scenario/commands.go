package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/resource"
)

// command performs a command with its arguments and its input, and returns its output.
type command struct {
	least int // number of arguments
	run   func(c *cloud, args []string, input string) (out string, err error)
}

// commands are the commands of scenarios.
//
//	variant NAME                  the scenario is run with the input for $VARIANT, and once for each other variant
//	placement, compute, network   start or restart a service; the input is more of its configuration
//	host NAME MACHINE [AS]        start the agent of a host; the input is more of its configuration, or that of AS is
//	reconfigure NAME              restart it with another configuration
//	stop NAME, start NAME         a service or an agent
//	change HOST OLD NEW           replace a text in the machine of a host
//	file NAME                     write the input into a file of $DIR
//	backup, restore SERVICE NAME  copy the state of a service that is stopped
//	berth ARGUMENTS               a client command
//	preflight                     berth preflight with the input as compute's configuration
//	plan, try HOST                berth agent plan and preflight, with the configuration of the host or that of the input
//	adopt, destroy HOST ...       berth agent adopt --yes and destroy
//	api METHOD SERVICE PATH ...   a request with the input as JSON; the path and the fields of the answer that are shown.
//	                              SERVICE@VERSION has a microversion
//	server NAME STATUS            wait until a server has a status and no task
//	allocation NAME               the allocation of a consumer
//	usages HOST [PART]            used and total amounts of the providers with a part in their names
//	tree HOST PART                parents, inventories (total/reserved/step size) and traits of such providers
//	devices NAME                  the devices of a server, or those of a host that are held, as hosts report them
//	guests HOST [FIELDS]          the guests in the hypervisor of a host
//	conditions HOST               the conditions of a host
var commands = map[string]command{
	"placement": {0, startService("placement")},
	"compute":   {0, startService("compute")},
	"network":   {0, startService("network")},
	"host":      {2, startHost},
	"reconfigure": {1, func(c *cloud, args []string, input string) (string, error) {
		return "", c.startAgent(args[0], input)
	}},
	"stop":  {1, stop},
	"start": {1, startAgain},
	"change": {3, func(c *cloud, args []string, _ string) (string, error) {
		return "", c.changeMachine(args[0], unescape(args[1]), unescape(args[2]))
	}},
	"file": {1, func(c *cloud, args []string, input string) (string, error) {
		return "", os.WriteFile(c.path(args[0]), []byte(input), 0o600)
	}},
	"backup": {2, func(c *cloud, args []string, _ string) (string, error) {
		return "", copyState(c.path(args[0]), c.path(args[1]))
	}},
	"restore": {2, func(c *cloud, args []string, _ string) (string, error) {
		return "", copyState(c.path(args[1]), c.path(args[0]))
	}},
	"berth":      {1, runClient},
	"preflight":  {0, preflight},
	"plan":       {1, agentPlan(app.PrintPlan)},
	"try":        {1, agentPlan(app.PreflightAgent)},
	"adopt":      {1, adopt},
	"destroy":    {2, destroy},
	"api":        {3, callAPI},
	"server":     {2, awaitServer},
	"allocation": {1, allocation},
	"usages":     {1, usages},
	"tree":       {2, tree},
	"devices":    {1, devices},
	"guests":     {1, guests},
	"conditions": {1, conditions},
}

func startService(name string) func(*cloud, []string, string) (string, error) {
	return func(c *cloud, _ []string, input string) (string, error) { return "", c.startService(name, input) }
}

func startHost(c *cloud, args []string, input string) (string, error) {
	if err := c.useMachine(args[0], args[1]); err != nil {
		return "", err
	}
	if len(args) > 2 {
		input = c.hosts[args[2]].conf
	}
	return "", c.startAgent(args[0], input)
}

// unescape replaces \n, because a command is one line.
func unescape(text string) string { return strings.ReplaceAll(text, `\n`, "\n") }

func stop(c *cloud, args []string, _ string) (string, error) {
	if s, is := c.services[args[0]]; is {
		return "", s.stop()
	}
	if h, is := c.hosts[args[0]]; is {
		return "", h.stop()
	}
	return "", fmt.Errorf("there is no service and no host %s", args[0])
}

func startAgain(c *cloud, args []string, _ string) (string, error) {
	if s, is := c.services[args[0]]; is {
		return "", c.startService(args[0], s.conf)
	}
	if h, is := c.hosts[args[0]]; is {
		return "", c.startAgent(args[0], h.conf)
	}
	return "", fmt.Errorf("there is no service and no host %s", args[0])
}

// runClient runs a client command. Its messages while it waits depend on the time, and are not part of its output.
func runClient(c *cloud, args []string, _ string) (string, error) {
	var g struct {
		cli.Globals
		cli.Commands
		Network cli.NetworkCommands `cmd:""`
	}
	var out bytes.Buffer
	g.Commands, g.Stdout, g.Stderr = cli.NewCommands(), &out, c.t.Output()
	parser, err := kong.New(&g, kong.Name("berth"), kong.Writers(&out, c.t.Output()), kong.Exit(func(int) {}))
	if err != nil {
		return "", err
	}
	parsed, err := parser.Parse(append(args, "--token", "admin", "--placement-url", c.services["placement"].server.URL,
		"--compute-url", c.services["compute"].server.URL, "--network-url", c.services["network"].server.URL))
	if err == nil {
		parsed.Bind(&g.Globals)
		err = parsed.Run()
	}
	return out.String(), err
}

func preflight(c *cloud, _ []string, input string) (string, error) {
	conf, err := c.settings("preflight", input)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	g := &cli.Globals{PlacementURL: c.services["placement"].server.URL, ComputeURL: c.services["compute"].server.URL,
		Token: "admin", Stdout: &out}
	p, err := cli.AskPreflight(c.t.Context(), g, time.Now(), conf.Aliases, conf.CheckAliases())
	if err == nil {
		err = cli.PrintPreflight(g, p)
	}
	return out.String(), err
}

// showPlan shows what an agent would do.
type showPlan func(ctx context.Context, s settings.Settings, dir string, endpoints app.Endpoints, log *slog.Logger,
	out io.Writer, asJSON bool) error

// agentPlan returns a command that shows what an agent would do with a configuration.
func agentPlan(show showPlan) func(*cloud, []string, string) (string, error) {
	return func(c *cloud, args []string, input string) (string, error) {
		var out bytes.Buffer
		if h := c.hosts[args[0]]; h != nil && input == "" {
			input = h.conf
		}
		s, endpoints, err := c.agentParts(args[0], input)
		if err == nil {
			err = show(c.t.Context(), s, c.agentDir(args[0]), endpoints, c.log, &out, false)
		}
		return out.String(), err
	}
}

// adopt shows the effect on each guest of what it then does.
func adopt(c *cloud, args []string, _ string) (string, error) {
	s, endpoints, err := c.agentParts(args[0], c.hosts[args[0]].conf)
	if err != nil {
		return "", err
	}
	agent, err := app.NewAgent(s, c.agentDir(args[0]), endpoints, c.log)
	if err != nil {
		return "", err
	}
	plan, err := agent.AdoptionPlan(c.t.Context())
	if err != nil {
		return "", err
	}
	var lines []string
	for _, g := range plan.Guests {
		lines = append(lines, c.names.shown(g.ID)+"  "+g.Then)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", agent.Adopt(c.t.Context())
}

func destroy(c *cloud, args []string, _ string) (string, error) {
	s, endpoints, err := c.agentParts(args[0], c.hosts[args[0]].conf)
	if err != nil {
		return "", err
	}
	agent, err := app.NewAgent(s, c.agentDir(args[0]), endpoints, c.log)
	if err != nil {
		return "", err
	}
	return "", agent.DestroyGuest(c.t.Context(), args[1], false)
}

func callAPI(c *cloud, args []string, input string) (string, error) {
	service, version, versioned := strings.Cut(args[1], "@")
	client := map[string]*rest.Client{"compute": c.compute().REST, "placement": c.placement().REST,
		"network": c.network().REST}[service]
	if client == nil {
		return "", fmt.Errorf("there is no service %s", service)
	}
	if versioned {
		client = &rest.Client{Base: client.Base, Headers: map[string]string{"X-Auth-Token": "admin",
			"OpenStack-API-Version": service + " " + version}}
	}
	var body any
	if input != "" {
		body = json.RawMessage(input)
	}
	answer, err := client.Do(c.t.Context(), args[0], args[2], body, nil)
	if status := rest.StatusOf(err); status != nil {
		return fmt.Sprintf("%d %s\n", status.Code, status.Detail), fmt.Errorf("status %d", status.Code)
	}
	if err != nil || len(args) == 3 {
		return "", err
	}
	lines, err := rows(answer.Body, args[3], args[4:])
	return strings.Join(lines, "\n") + "\n", err
}

func awaitServer(c *cloud, args []string, _ string) (string, error) {
	for end := time.Now().Add(limit); ; time.Sleep(poll) {
		s, err := c.compute().Server(c.t.Context(), args[0])
		if err == nil && s.Status == args[1] && s.TaskState == nil {
			return "", nil
		}
		if time.Now().After(end) || err == nil && s.Status == "ERROR" {
			return "", fmt.Errorf("server %s is %s: %+v: %w", args[0], s.Status, s.Fault, err)
		}
	}
}

func allocation(c *cloud, args []string, _ string) (string, error) {
	id, err := c.names.expand("{" + args[0] + "}")
	if err != nil {
		return "", err
	}
	held, err := c.placement().Allocation(c.t.Context(), resource.ConsumerID(id))
	if err != nil {
		return "", err
	}
	var lines []string
	for provider, amounts := range held.Allocation {
		line := c.names.shown(string(provider))
		for _, class := range slices.Sorted(maps.Keys(amounts)) {
			line += fmt.Sprintf("  %s:%d", class, amounts[class])
		}
		lines = append(lines, strings.NewReplacer("{", "", "}", "").Replace(line))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

func usages(c *cloud, args []string, _ string) (string, error) {
	ctx := c.t.Context()
	root, err := c.placement().ProviderByName(ctx, args[0])
	if err != nil {
		return "", err
	}
	tree, err := c.placement().Tree(ctx, root.ID)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, p := range tree.Providers {
		if len(args) > 1 && !strings.Contains(p.Name, args[1]) {
			continue
		}
		used, err := c.placement().Usages(ctx, p.ID)
		if err != nil {
			return "", err
		}
		line := p.Name
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			line += fmt.Sprintf("  %s:%d/%d", class, used[class], p.Inventories[class].Total)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

func tree(c *cloud, args []string, _ string) (string, error) {
	root, err := c.placement().ProviderByName(c.t.Context(), args[0])
	if err != nil {
		return "", err
	}
	all, err := c.placement().Tree(c.t.Context(), root.ID)
	var lines []string
	for _, p := range all.Providers {
		if !strings.Contains(p.Name, args[1]) {
			continue
		}
		parent, _ := all.ByID(p.Parent)
		line := p.Name + " in " + parent.Name
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			inv := p.Inventories[class]
			line += fmt.Sprintf("  %s:%d/%d/%d", class, inv.Total, inv.Reserved, inv.StepSize)
		}
		lines = append(lines, fmt.Sprint(line, "  ", p.Traits))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

func devices(c *cloud, args []string, _ string) (string, error) {
	list, err := c.hostAPI().Devices(c.t.Context())
	if err != nil {
		return "", err
	}
	if _, is := c.hosts[args[0]]; is {
		var lines []string
		for _, d := range list {
			if d.Host == args[0] && d.Holder != "" {
				lines = append(lines, d.Address+"  "+d.Holder)
			}
		}
		return strings.Join(lines, "\n"), nil
	}
	id, err := c.names.expand("{" + args[0] + "}")
	var lines []string
	for _, d := range list {
		if d.Holder == id {
			lines = append(lines, d.Host+"  "+d.Address)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

func guests(c *cloud, args []string, _ string) (string, error) {
	files, err := filepath.Glob(filepath.Join(c.agentDir(args[0]), "guests", "*.json"))
	var lines []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		line := c.names.shown(strings.TrimSuffix(filepath.Base(file), ".json"))
		if len(args) > 1 {
			fields, err := rows(text, ".", args[1:])
			if err != nil {
				return "", err
			}
			line += "  " + strings.Join(fields, "  ")
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

func conditions(c *cloud, args []string, _ string) (string, error) {
	list, err := c.hostAPI().Hosts(c.t.Context())
	for _, h := range list {
		if h.Host == args[0] {
			lines := strings.Split(c.names.shown(strings.Join(condition.Texts(h.Conditions), "\n")), "\n")
			slices.Sort(lines)
			return strings.Join(lines, "\n"), err
		}
	}
	return "", errors.Join(err, fault.New(fault.NotFound, "host %s has not reported", args[0]))
}
