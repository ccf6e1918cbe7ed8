package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// strategyFixture is a server with a strategy other than noauth2, whose callers are still those of their headers.
func strategyFixture(t *testing.T, strategy string) *fixture {
	return startWith(t, func(o *Options) { o.Strategy, o.Challenge = strategy, `Basic realm="Berth"` })
}

// as returns a client of the host API with an account and its roles.
func (h *fixture) as(account, roles string) host.Client {
	return host.Client{REST: &rest.Client{Base: h.url, HTTP: &http.Client{},
		Headers: map[string]string{"X-Auth-Token": account, "X-Roles": roles}}}
}

func TestHostIsBoundToTheAccountOfItsFirstReport(t *testing.T) {
	h := strategyFixture(t, "http_basic")
	ctx, one, two := t.Context(), h.as("one", "service"), h.as("two", "service,admin")
	refused := func(err error, words ...string) {
		t.Helper()
		if !fault.Is(err, fault.Forbidden) {
			t.Errorf("%v", err)
		}
		for _, word := range words {
			if err != nil && !strings.Contains(fault.TextOf(err), word) {
				t.Errorf("no %q in %v", word, err)
			}
		}
	}
	accepted := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	account := func() string {
		t.Helper()
		list, err := two.Hosts(ctx)
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v %v", list, err)
		}
		return list[0].Account
	}
	refused(h.as("root", "admin").PutReport(ctx, report("host1")), "needs the role service", "root")
	refused(h.as("ann", "member").PutReport(ctx, report("host1")), "needs the role service")
	accepted(one.PutReport(ctx, report("host1")))
	if got := account(); got != "one" {
		t.Errorf("bound to %q", got)
	}
	sentence := []string{"account two may not speak for host host1", "`berth host bind host1 two`"}
	refused(two.PutReport(ctx, report("host1")), sentence...)
	refused(two.PutGuest(ctx, "host1", "s", host.Guest{Instance: "a", Start: "s", Number: 1, Phase: host.Gone}),
		sentence...)
	const assignments = "/berth/v1/hosts/host1/assignments"
	if r := h.ask("HEAD", assignments, "", "X-Auth-Token", "two", "X-Roles", "service"); r.status != 403 {
		t.Errorf("the assignments of another account's host: %d", r.status)
	}
	if r := h.ask("HEAD", assignments, "", "X-Auth-Token", "one", "X-Roles", "service"); r.status != 200 {
		t.Errorf("the assignments of the account's host: %d", r.status)
	}

	refused(one.Bind(ctx, "host1", "two"), "needs the role admin")
	accepted(two.Bind(ctx, "host1", "two"))
	accepted(two.PutReport(ctx, report("host1")))
	refused(one.PutReport(ctx, report("host1")))
	refused(one.Unbind(ctx, "host1"))
	accepted(two.Unbind(ctx, "host1"))
	if got := account(); got != "" {
		t.Errorf("bound to %q", got)
	}
	if err := two.Unbind(ctx, "host1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	accepted(one.PutReport(ctx, report("host1")))
	accepted(two.Bind(ctx, "host2", "three")) // before the first contact
	refused(one.PutReport(ctx, report("host2")))
	accepted(h.as("three", "service").PutReport(ctx, report("host2")))
	for body, want := range map[string]int{`{"account": ""}`: 400, `{}`: 400, `{"account": 7}`: 400,
		`{"account": "` + strings.Repeat("x", 256) + `"}`: 400, `{"account": "four"}`: 204} {
		if r := h.ask("PUT", "/berth/v1/hosts/host1/account", body, "X-Auth-Token", "admin", "Content-Type",
			"application/json"); r.status != want {
			t.Errorf("%s: %d %s", body, r.status, r.text)
		}
	}
}

// A start that may not serve the host does not bind it.
func TestRefusedStartBindsNothing(t *testing.T) {
	h := strategyFixture(t, "keystone")
	ctx := t.Context()
	first := report("host1")
	first.Start = "s1"
	if err := h.as("one", "service").PutReport(ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := h.as("admin", "admin").Unbind(ctx, "host1"); err != nil {
		t.Fatal(err)
	}
	second := report("host1")
	second.Instance, second.Start = "another", "s2"
	if err := h.as("two", "service").PutReport(ctx, second); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if err := h.as("one", "service").PutReport(ctx, first); err != nil {
		t.Errorf("the host is bound to a refused start: %v", err)
	}
}

// A binding of another strategy does not apply: after noauth2, hosts are bound to the accounts of the new strategy.
func TestBindingOfAnotherStrategyDoesNotApply(t *testing.T) {
	var before *fixture
	before = start(t) // noauth2
	admin := before.as("admin:service", "admin")
	if err := admin.PutReport(t.Context(), report("host1")); err != nil {
		t.Fatalf("the token of services with noauth2: %v", err)
	}
	if b, err := before.store.HostAccount(t.Context(), "host1"); err != nil || b.Account != "admin" ||
		b.Strategy != "noauth2" {
		t.Errorf("%+v %v", b, err)
	}
	after := startWith(t, func(o *Options) { o.Strategy, o.Store = "http_basic", before.store })
	if err := after.as("one", "service").PutReport(t.Context(), report("host1")); err != nil {
		t.Errorf("%v", err)
	}
	if err := after.as("admin", "service").PutReport(t.Context(), report("host1")); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
}

func TestChallengeOfUnauthorizedRequests(t *testing.T) {
	h := strategyFixture(t, "http_basic")
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/v2.1/servers", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != `Basic realm="Berth"` {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}
