package restclient

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
)

// machine returns a system with two GPUs.
func machine() *novalink.System {
	return &novalink.System{UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1", Owner: true,
		Slots: []*novalink.Slot{novalink.GPU(470810337, "U1-P1-C1"), novalink.GPU(470810338, "U1-P1-C2")}}
}

// serve starts a fake with the systems and returns it with a client that logs on by file.
func serve(t *testing.T, systems ...*novalink.System) (*novalink.Server, *Client) {
	t.Helper()
	server := novalink.New(novalink.Options{TokenDir: t.TempDir(), User: "hscroot", Password: "a<b"}, systems...)
	return server, client(t, server, Options{})
}

// client returns a client of a fake, which does not wait long.
func client(t *testing.T, server http.Handler, o Options) *Client {
	t.Helper()
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	o.URL = listener.URL
	o.Busy = backoff.Exponential{First: time.Millisecond, Max: time.Millisecond}
	o.Poll = time.Millisecond
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.http.CloseIdleConnections() })
	return c
}

// expectRequests compares the requests that a fake has received.
func expectRequests(t *testing.T, server *novalink.Server, want ...string) {
	t.Helper()
	if got := server.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestQuietCycleIsOneGETWithoutBody_R45_G3(t *testing.T) {
	server, c := serve(t, machine())
	read := func(wantChanged bool) uom.ManagedSystem {
		t.Helper()
		m, changed, err := c.ManagedSystem(t.Context())
		if err != nil || changed != wantChanged || m.SystemName != "sys1" || len(m.IO.Slots.Slots) != 2 {
			t.Fatalf("%+v changed %v: %v", m, changed, err)
		}
		return m
	}
	first := read(true)
	if second := read(false); second.IO != first.IO {
		t.Error("an unchanged system was decoded again")
	}
	expectRequests(t, server, "PUT /web/Logon 200", "GET /uom/ManagedSystem 200", "GET /uom/ManagedSystem 304")
	server.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].Touch() })
	read(true)
	server.Inject(novalink.Fault{Status: 400})
	if _, _, err := c.ManagedSystem(t.Context()); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	read(true) // after an error the whole answer is read
}

func TestSystemIsChosenByUUIDOrName(t *testing.T) {
	other := machine()
	other.UUID, other.Name = "AAAAAAAA-2222-3333-4444-555555555555", "sys2"
	for want, text := range map[string]string{"": "2 managed systems: sys1, sys2", "sys2": "",
		"sys3":                                 `no managed system "sys3"`,
		"aaaaaaaa-2222-3333-4444-555555555555": ""} {
		server := novalink.New(novalink.Options{TokenDir: t.TempDir()}, machine(), other)
		m, _, err := client(t, server, Options{System: want}).ManagedSystem(t.Context())
		if text == "" && (err != nil || m.SystemName != "sys2") || text != "" && (err == nil ||
			!strings.Contains(err.Error(), text)) {
			t.Errorf("%q: %s %v", want, m.SystemName, err)
		}
	}
	_, none := serve(t) // an empty feed is status 204
	if _, _, err := none.ManagedSystem(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}

func TestLogonWithPassword_S3(t *testing.T) {
	server := novalink.New(novalink.Options{User: "hscroot", Password: "a<b&c", HMC: true}, machine())
	c := client(t, server, Options{User: "hscroot", Password: "a<b&c"})
	if _, _, err := c.ManagedSystem(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close(t.Context())
	expectRequests(t, server, "PUT /web/Logon 200", "GET /uom/ManagedSystem 200", "DELETE /web/Logon 204")
}

// A session that the server has begun is ended, also if the request that needed it was cancelled in between.
func TestCancelledLogonLeavesNoSession_S3(t *testing.T) {
	server := novalink.New(novalink.Options{TokenDir: t.TempDir()}, machine())
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		server.ServeHTTP(w, r)
	}), Options{})
	if _, _, err := c.ManagedSystem(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	c.Close(t.Context())
	expectRequests(t, server, "PUT /web/Logon 200", "DELETE /web/Logon 204")
	if server.Sessions() != 0 {
		t.Errorf("%d sessions are left", server.Sessions())
	}
}

// Repeated logons with a wrong password lock the account.
func TestRefusedPasswordIsTriedOnce_S3(t *testing.T) {
	server := novalink.New(novalink.Options{User: "hscroot", Password: "right"}, machine())
	c := client(t, server, Options{User: "hscroot", Password: "wrong-secret"})
	for range 3 {
		_, _, err := c.ManagedSystem(t.Context())
		if !fault.Is(err, fault.Forbidden) || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%v", err)
		}
	}
	expectRequests(t, server, "PUT /web/Logon 401")
}

// An account that the server refused is read again for each request, and used if it has changed. The same account is
// tried again after a wait, so that a service that refuses it once does not lock the agent.
func TestRefusedAccountIsReadAgain(t *testing.T) {
	server := novalink.New(novalink.Options{User: "hscroot", Password: "new"}, machine())
	now, password := time.Unix(0, 0), "old"
	c := client(t, server, Options{User: "hscroot", Password: "old", Now: func() time.Time { return now },
		Account: func() (string, string, error) { return "hscroot", password, nil }})
	read := func() error {
		_, _, err := c.ManagedSystem(t.Context())
		return err
	}
	for range 3 {
		if err := read(); !fault.Is(err, fault.Forbidden) {
			t.Fatal(err)
		}
	}
	password = "new"
	if err := read(); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, server, "PUT /web/Logon 401", "PUT /web/Logon 200", "GET /uom/ManagedSystem 200")
	server.EndSessions()
	server.Inject(novalink.Fault{Path: "/web/Logon", Status: 401})
	for range 3 {
		if err := read(); !fault.Is(err, fault.Forbidden) {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Minute)
	if err := read(); err != nil {
		t.Fatal(err)
	}
	expectRequests(t, server, "GET /uom/ManagedSystem 401", "PUT /web/Logon 401", "PUT /web/Logon 200",
		"GET /uom/ManagedSystem 200")
}

func TestLogonByFileFailures_S3(t *testing.T) {
	for name, c := range map[string]struct {
		read func(string) ([]byte, error)
		kind fault.Kind
		text string
	}{
		"no permission": {func(string) ([]byte, error) { return nil, fs.ErrPermission }, fault.Invalid, "pvm_admin"},
		"no file":       {func(string) ([]byte, error) { return nil, fs.ErrNotExist }, fault.Unavailable, "on this machine"},
		"empty":         {func(string) ([]byte, error) { return []byte(" \n"), nil }, fault.Unavailable, "is empty"},
	} {
		server := novalink.New(novalink.Options{TokenDir: t.TempDir()}, machine())
		_, _, err := client(t, server, Options{ReadFile: c.read}).ManagedSystem(t.Context())
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	hmc := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	if _, _, err := client(t, hmc, Options{}).ManagedSystem(t.Context()); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "is an HMC") {
		t.Errorf("%v", err)
	}
	starting := http.NotFoundHandler()
	if _, _, err := client(t, starting, Options{}).ManagedSystem(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a service that starts: %v", err)
	}
}

func TestEndedSessionIsRenewedOnce_S3(t *testing.T) {
	server, c := serve(t, machine())
	if _, _, err := c.ManagedSystem(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.EndSessions()
	if _, _, err := c.ManagedSystem(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Inject(novalink.Fault{Path: "ManagedSystem", Status: 403, Reason: "5", Message: "the session is not valid"})
	if _, _, err := c.ManagedSystem(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Requests()
	server.Inject(novalink.Fault{Path: "ManagedSystem", Status: 401, Times: 9})
	if _, _, err := c.ManagedSystem(t.Context()); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
	expectRequests(t, server, "GET /uom/ManagedSystem 401", "PUT /web/Logon 200", "GET /uom/ManagedSystem 401")
}

// The server repeats the session in its errors; no message has it.
func TestErrorsDoNotHaveTheSession_S5(t *testing.T) {
	server, c := serve(t, machine())
	for _, status := range []int{400, 403, 404, 409, 412, 500, 503} {
		server.Inject(novalink.Fault{Path: "ManagedSystem", Status: status, Message: "no", Times: 4})
		_, _, err := c.ManagedSystem(t.Context())
		if err == nil || strings.Contains(err.Error(), "token-") || !strings.Contains(err.Error(), ": no, transaction XT") {
			t.Errorf("%d: %v", status, err)
		}
		for range 3 { // the rest of the faults
			_, _, _ = c.ManagedSystem(t.Context())
		}
	}
}

// While the service starts, its web server answers 404 to everything. That says nothing about an object: a partition is
// not deleted because of it.
func TestPlain404IsAServiceThatStarts_S3(t *testing.T) {
	server, c := serve(t, machine())
	path := create(t, c, "a", "470810337")
	for _, starting := range []bool{true, false} {
		server.Change(func(o *novalink.Options, _ []*novalink.System) { o.Starting = starting })
		_, _, err := c.ManagedSystem(t.Context())
		deleted := c.Delete(t.Context(), path)
		if starting && (!fault.Is(err, fault.Unavailable) || !fault.Is(deleted, fault.Unavailable)) ||
			!starting && (err != nil || deleted != nil) {
			t.Errorf("starting %v: %v, %v", starting, err, deleted)
		}
	}
	if err := c.Delete(t.Context(), path); err != nil { // the service says that it does not exist
		t.Error(err)
	}
}

// A 403 for another reason than the session is a missing right.
func TestForbiddenIsNotALogon_S3(t *testing.T) {
	server, c := serve(t, machine())
	server.Inject(novalink.Fault{Path: "ManagedSystem", Status: 403, Reason: "7", Message: "no right"})
	if _, _, err := c.ManagedSystem(t.Context()); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
	expectRequests(t, server, "PUT /web/Logon 200", "GET /uom/ManagedSystem 403")
}

func TestConcurrentRequestsShareOneLogon(t *testing.T) {
	server, c := serve(t, machine())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := c.Partitions(t.Context(), machine().UUID); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	logons := slices.DeleteFunc(server.Requests(), func(r string) bool { return !strings.Contains(r, "Logon") })
	if len(logons) != 1 {
		t.Errorf("%v", logons)
	}
}

func TestBusyServerIsTriedAgainThreeTimes_S5(t *testing.T) {
	for _, busy := range []novalink.Fault{{Status: 503}, {Status: 500, Message: "HSCL3205 try later"},
		{Status: 500, Message: "The VIOS is busy with another request"}, {Status: 503, Plain: true}} {
		server, c := serve(t, machine())
		busy.Path, busy.Times = "ManagedSystem", 3
		server.Inject(busy)
		if _, _, err := c.ManagedSystem(t.Context()); err != nil {
			t.Errorf("%+v: %v", busy, err)
		}
		busy.Times = 4
		server.Inject(busy)
		if _, _, err := c.ManagedSystem(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%+v: %v", busy, err)
		}
	}
	server, c := serve(t, machine())
	server.Inject(novalink.Fault{Path: "ManagedSystem", Status: 500, Reason: "Internal", Message: "out of cheese"})
	_, _, err := c.ManagedSystem(t.Context())
	if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(),
		"status 500: out of cheese (Internal), transaction XT2;") {
		t.Errorf("%v", err)
	}
	expectRequests(t, server, "PUT /web/Logon 200", "GET /uom/ManagedSystem 500")
}

func TestDefaultWaitsWhileBusy_S5(t *testing.T) {
	o := Options{}.withDefaults()
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second} {
		if got := o.Busy.Wait(i + 1); got != want {
			t.Errorf("wait %d is %s", i+1, got)
		}
	}
}

func TestLostConnectionAndMalformedAnswer(t *testing.T) {
	server, c := serve(t, machine())
	server.Inject(novalink.Fault{Method: "GET", Times: 99})
	if _, _, err := c.ManagedSystem(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	_, c = serve(t, machine())
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := c.ManagedSystem(ended); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	broken := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-MC-Type", "PVM")
		if strings.Contains(r.URL.Path, "Logon") {
			_, _ = w.Write([]byte("<LogonResponse><X-API-SessionFile>f</X-API-SessionFile></LogonResponse>"))
			return
		}
		_, _ = w.Write([]byte("<feed><entry></feed>"))
	})
	c = client(t, broken, Options{ReadFile: func(string) ([]byte, error) { return []byte("t"), nil }})
	if _, _, err := c.ManagedSystem(t.Context()); !fault.Is(err, fault.Internal) {
		t.Errorf("%v", err)
	}
}

// partitionObject returns a partition with these slots.
func partitionObject(name string, indices ...string) *uom.Element {
	var slots []uom.IOSlot
	for _, index := range indices {
		slots = append(slots, uom.IOSlot{Index: index, BusGrouping: "false"})
	}
	return uom.NewElement("LogicalPartition", uom.NewElement("PartitionIOConfiguration",
		uom.ProfileSlots(slots, true)), uom.NewText("PartitionName", name))
}

const lparPath = "/uom/ManagedSystem/11111111-2222-3333-4444-555555555555/LogicalPartition"

// create creates a partition and returns its path.
func create(t *testing.T, c *Client, name string, indices ...string) string {
	t.Helper()
	p, err := c.Create(t.Context(), lparPath, partitionObject(name, indices...))
	if err != nil {
		t.Fatal(err)
	}
	return "/uom/LogicalPartition/" + p.ChildText("PartitionUUID")
}

func TestPartitionHasSlotsUntilItIsDeleted_R49_R50(t *testing.T) {
	system := machine()
	server, c := serve(t, system)
	path := create(t, c, "a b", "470810337")
	owners := func() (out map[uint32]string) {
		server.Change(func(_ *novalink.Options, systems []*novalink.System) { out = systems[0].Owners() })
		return out
	}
	if got := owners(); len(got) != 1 || got[470810337] != "a b" {
		t.Errorf("%v", got)
	}
	if _, err := c.Create(t.Context(), lparPath, partitionObject("c", "470810337")); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "HSCL1401") {
		t.Errorf("a slot in two partitions: %v", err)
	}
	list, err := c.Partitions(t.Context(), system.UUID)
	if err != nil || len(list) != 2 || list[1].Name != "a b" || !slices.Equal(list[1].SlotIndices(),
		[]string{"470810337"}) { // the first one is NovaLink's own
		t.Errorf("%+v %v", list, err)
	}
	for range 2 { // a partition that is gone counts as deleted
		if err := c.Delete(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	if got := owners(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// A list of partitions without an entry is a fault: NovaLink runs in a partition itself. An HMC may have none of one
// kind. A list with an entry that has no UUID is a fault too.
func TestIncompleteListOfPartitions(t *testing.T) {
	for name, c := range map[string]struct {
		hmc    bool
		faults []novalink.Fault
	}{
		"NovaLink, 204":             {faults: []novalink.Fault{{Path: "/LogicalPartition", Status: 204, NoBody: true}}},
		"NovaLink, 200":             {faults: []novalink.Fault{{Path: "/LogicalPartition", Status: 200, NoBody: true}}},
		"virtual I/O servers, 200":  {faults: []novalink.Fault{{Path: "/VirtualIOServer", Status: 200, NoBody: true}}},
		"an HMC without partitions": {hmc: true},
	} {
		server := novalink.New(novalink.Options{User: "u", Password: "p", HMC: c.hmc}, machine())
		client := client(t, server, Options{User: "u", Password: "p"})
		for _, f := range c.faults {
			server.Inject(f)
		}
		list, err := client.Partitions(t.Context(), machine().UUID)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "not complete") {
			t.Errorf("%s: %v %v", name, list, err)
		}
	}
	server := novalink.New(novalink.Options{User: "u", Password: "p", HMC: true}, machine())
	server.Change(func(_ *novalink.Options, systems []*novalink.System) {
		systems[0].Slots[0].ForeignID, systems[0].Slots[0].ForeignName = "9", "vios1"
	})
	list, err := client(t, server, Options{User: "u", Password: "p"}).Partitions(t.Context(), machine().UUID)
	if err != nil || len(list) != 1 || list[0].Name != "vios1" {
		t.Errorf("an HMC with a virtual I/O server only: %v %v", list, err)
	}
}

// One partition is read by its UUID.
func TestPartitionByUUID(t *testing.T) {
	_, c := serve(t, machine())
	create(t, c, "a", "470810337")
	list, err := c.Partitions(t.Context(), machine().UUID)
	if err != nil || len(list) != 2 {
		t.Fatal(err)
	}
	if p, err := c.Partition(t.Context(), list[1].UUID); err != nil || p.Name != "a" {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := c.Partition(t.Context(), "00000000-0000-0000-0000-000000000000"); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

// The slots go from the system to a partition: read, checked, and sent with their own bus grouping flag.
func TestSlotsOfTheSystemAreAssigned_R49_C27(t *testing.T) {
	system := machine()
	system.Slots[0].BusGrouping = true
	_, c := serve(t, system)
	read := func() ioslot.System {
		m, _, err := c.ManagedSystem(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ioslot.FromSystem(m, nil)
	}
	uuid := ioslot.PartitionUUID("f0000000-0000-4000-8000-000000000001")
	slots, err := read().ForPartition(uuid, []ioslot.Index{470810337, 470810338})
	if err != nil {
		t.Fatal(err)
	}
	object := uom.NewElement("LogicalPartition", uom.NewElement("PartitionIOConfiguration",
		uom.ProfileSlots(ioslot.Profile(slots), true)), uom.NewText("PartitionName", "a"), uom.NewText("PartitionUUID", uuid))
	if _, err := c.Create(t.Context(), lparPath, object); err != nil {
		t.Fatal(err)
	}
	if _, err := read().ForPartition(uuid, []ioslot.Index{470810337}); err != nil {
		t.Errorf("its own slot: %v", err)
	}
	if _, err := read().ForPartition("OTHER", []ioslot.Index{470810337}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the slot of another partition: %v", err)
	}
	wrong := partitionObject("b", "470810337") // with the flag false
	if _, err := c.Create(t.Context(), lparPath, wrong); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "BusGroupingRequired") {
		t.Errorf("%v", err)
	}
}

func TestElementsInWrongOrderAreRefused(t *testing.T) {
	_, c := serve(t, machine())
	object := partitionObject("a")
	slices.Reverse(object.Children)
	if _, err := c.Create(t.Context(), lparPath, object); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "unmarshalled") {
		t.Errorf("%v", err)
	}
}

// An update keeps what it does not change, slots included: the server replaces the whole section.
func TestUpdateKeepsSlots_C22(t *testing.T) {
	_, c := serve(t, machine())
	path := create(t, c, "a", "470810337")
	err := c.Update(t.Context(), path, func(object *uom.Element) error {
		object.Child("PartitionName").Text = "renamed"
		return nil
	})
	list, _ := c.Partitions(t.Context(), machine().UUID)
	if err != nil || len(list) != 2 || list[1].Name != "renamed" || len(list[1].Slots) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	refusal := errors.New("no")
	if err := c.Update(t.Context(), path, func(*uom.Element) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("%v", err)
	}
}

func TestUpdateIsRepeatedAfterAnotherChange_S4(t *testing.T) {
	server, c := serve(t, machine())
	path := create(t, c, "a")
	server.Inject(novalink.Fault{Method: "POST", Status: 412, Times: 2})
	calls := 0
	count := func(*uom.Element) error { calls++; return nil }
	if err := c.Update(t.Context(), path, count); err != nil || calls != 3 {
		t.Errorf("%d calls: %v", calls, err)
	}
	server.Inject(novalink.Fault{Method: "POST", Status: 412, Times: 3})
	if err := c.Update(t.Context(), path, count); fault.CodeOf(err) != CodeETag || !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	// The server compares the ETag itself: a stale one is refused, and the next attempt has the new one.
	first := true
	err := c.Update(t.Context(), path, func(*uom.Element) error {
		if first {
			first = false
			return c.Update(t.Context(), path, count)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v", err)
	}
}

func TestJobs_S6(t *testing.T) {
	for end, text := range map[string]string{"": "", "COMPLETED_WITH_WARNINGS": "the firmware complained",
		"COMPLETED_WITH_ERROR": "the firmware complained", "FAILED_BEFORE_COMPLETION": "HSCL3656 no memory",
		"SOMETHING_NEW": "SOMETHING_NEW"} {
		server, c := serve(t, machine())
		path := create(t, c, "a")
		server.Change(func(o *novalink.Options, _ []*novalink.System) { o.JobEnd, o.JobPolls = end, 2 })
		err := c.RunJob(t.Context(), path, "PowerOn", uom.JobParameter{Name: "force", Value: "false"})
		if text == "" && err != nil || text != "" && (!fault.Is(err, fault.Internal) || !strings.Contains(err.Error(),
			text)) {
			t.Errorf("%q: %v", end, err)
		}
		list, _ := c.Partitions(t.Context(), machine().UUID)
		if running := list[1].State == "running"; running != (end == "") || server.Jobs() != 0 {
			t.Errorf("%q: running %v, %d jobs are left", end, running, server.Jobs())
		}
	}
}

func TestJobThatDoesNotEndIsCancelled_S6(t *testing.T) {
	server, c := serve(t, machine())
	path := create(t, c, "a")
	server.Change(func(o *novalink.Options, _ []*novalink.System) { o.JobEnd, o.CancelPolls = "RUNNING", 2 })
	c.options.JobTime = 20 * time.Millisecond
	server.Requests()
	err := c.RunJob(t.Context(), path, "PowerOn")
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	requests := server.Requests()
	// After it: three polls until the job has ended, and the DELETE.
	cancelled := slices.IndexFunc(requests, func(r string) bool { return strings.HasSuffix(r, "/cancel 204") })
	if cancelled < 0 || len(requests)-cancelled != 5 || server.Jobs() != 0 {
		t.Errorf("%d jobs are left after %v", server.Jobs(), requests)
	}
}

func TestPasswordAndSessionNeedEncryptionOrThisMachine(t *testing.T) {
	for url, ok := range map[string]bool{"": true, "http://localhost:12080": true, "http://127.0.0.9:1": true,
		"http://[::1]:12080": true, "https://hmc.example.org:12443": true, "https://[fe80::1]:12443/": true,
		"http://hmc.example.org:12080": false, "http://10.0.0.1": false, "http://localhost.example.org": false,
		"ftp://localhost": false, "localhost:12080": false, "http://": false, "https://u:p@h": false, "https://h/rest": false,
		"https://h?x": false} {
		for _, password := range []string{"", "secret"} {
			if _, err := New(Options{URL: url, Password: password}); (err == nil) != ok || err != nil &&
				!fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", url, err)
			}
		}
	}
	for password, want := range map[string]string{"": "http://localhost:12080", "x": "https://localhost:12443"} {
		if got := (Options{Password: password}).withDefaults().URL; got != want {
			t.Errorf("password %q: %s", password, got)
		}
	}
}

func TestTLSWithCAFileOrPinnedCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(novalink.New(novalink.Options{TokenDir: t.TempDir()}, machine()))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	own := writePEM(t, server.Certificate().Raw)
	for name, c := range map[string]struct {
		o    Options
		text string
	}{
		"CAs of this machine": {Options{}, "certificate"},
		"CA file":             {Options{CAFile: own}, ""},
		"pinned":              {Options{PinFile: own}, ""},
		"expired": {Options{PinFile: own, Now: func() time.Time { return server.Certificate().NotAfter.Add(1) }},
			"has expired"},
	} {
		c.o.URL = server.URL
		client, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = client.ManagedSystem(t.Context())
		if c.text == "" && err != nil || c.text != "" && (!fault.Is(err, fault.Unavailable) ||
			!strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: %v", name, err)
		}
		client.http.CloseIdleConnections()
	}
	other := *server.Certificate()
	other.Raw = append([]byte{0}, other.Raw...)
	for _, shown := range [][]*x509.Certificate{nil, {&other}} {
		if err := verifyPinned(server.Certificate(), shown, time.Now()); err == nil {
			t.Error("another certificate is accepted")
		}
	}
	for _, o := range []Options{{PinFile: filepath.Join(t.TempDir(), "none")},
		{CAFile: filepath.Join(t.TempDir(), "none")},
		{PinFile: writeFile(t, "text")}} {
		if _, err := New(o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func writePEM(t *testing.T, der []byte) string {
	t.Helper()
	return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
