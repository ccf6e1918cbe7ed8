package novalink

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// peer is a client that writes its documents as text.
type peer struct {
	t       *testing.T
	fake    *Server
	base    string
	session string
}

const systemUUID = "11111111-2222-3333-4444-555555555555"

func newPeer(t *testing.T, o Options, systems ...*System) *peer {
	t.Helper()
	fake := New(o, systems...)
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	return &peer{t: t, fake: fake, base: server.URL + "/rest/api"}
}

// ready returns a peer with a session, of a system with two GPUs.
func ready(t *testing.T) *peer {
	t.Helper()
	p := newPeer(t, Options{TokenDir: t.TempDir()}, &System{UUID: systemUUID, Name: "sys1", Owner: true, Buses: true,
		Slots: []*Slot{GPU(470810337, "U1-P1-C1"), GPU(470810338, "U1-P1-C2")}})
	p.logOn()
	return p
}

func (p *peer) logOn() {
	p.t.Helper()
	_, _, body := p.expect(200, "PUT", "/web/Logon", logon("<GenerateX-API-SessionFile>true</GenerateX-API-SessionFile>"))
	token, err := os.ReadFile(between(body, "<X-API-SessionFile>", "</X-API-SessionFile>"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.session = strings.TrimSpace(string(token))
}

func between(text, begin, end string) string {
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	return text
}

func logon(proof string) string {
	return `<LogonRequest xmlns="` + webNamespace + `"><UserID>u</UserID>` + proof + `</LogonRequest>`
}

// send sends a request; headers are pairs of names and values.
func (p *peer) send(method, path, body string, headers ...string) (int, http.Header, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	kind := "uom+xml; type=LogicalPartition"
	for part, other := range map[string]string{"Logon": "web+xml; type=LogonRequest", "/do/": "web+xml; type=JobRequest"} {
		if strings.Contains(path, part) {
			kind = other
		}
	}
	r.Header.Set("Content-Type", "application/vnd.ibm.powervm."+kind)
	r.Header.Set("X-API-Session", p.session)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (p *peer) expect(status int, method, path, body string, headers ...string) (int, http.Header, string) {
	p.t.Helper()
	got, header, text := p.send(method, path, body, headers...)
	if got != status {
		p.t.Errorf("%s %s: status %d, want %d: %s", method, path, got, status, text)
	}
	return got, header, text
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// A file logon and a password logon give sessions; a request without one is status 401, and so is one whose session has
// ended, until a new logon.
func TestLogonsAndEndedSessions(t *testing.T) {
	p := newPeer(t, Options{TokenDir: t.TempDir(), User: "u", Password: "right"}, &System{UUID: systemUUID})
	p.expect(401, "GET", "/uom/ManagedSystem", "")
	p.expect(401, "PUT", "/web/Logon", logon("<Password>wrong</Password>"))
	_, _, body := p.expect(200, "PUT", "/web/Logon", logon("<Password>right</Password>"))
	token := strings.ReplaceAll(between(body, "<X-API-Session>", "</X-API-Session>"), "&#xA;", "") // it has line breaks
	p.session = strings.TrimSpace(token)
	p.expect(200, "GET", "/uom/ManagedSystem", "")
	p.logOn()
	_, header, _ := p.expect(200, "GET", "/uom/ManagedSystem", "")
	if header.Get("X-MC-Type") != "PVM" {
		t.Errorf("%v", header)
	}
	p.fake.Inject(Fault{Path: "ManagedSystem", Status: 401}) // once
	p.expect(401, "GET", "/uom/ManagedSystem", "")
	p.expect(200, "GET", "/uom/ManagedSystem", "")
	p.fake.EndSessions()
	p.expect(401, "GET", "/uom/ManagedSystem", "")
	p.logOn()
	p.expect(204, "DELETE", "/web/Logon", "")
	p.expect(401, "GET", "/uom/ManagedSystem", "")
	console := newPeer(t, Options{HMC: true, TokenDir: t.TempDir(), User: "u", Password: "right"})
	console.expect(401, "PUT", "/web/Logon", logon("<GenerateX-API-SessionFile>true</GenerateX-API-SessionFile>"))
}

// A feed has an ETag of its own and one in each entry, unquoted; an unchanged one is status 304 without a body, and an
// empty one status 204.
func TestFeedsAndTheirETags(t *testing.T) {
	p := ready(t)
	_, header, body := p.expect(200, "GET", "/uom/ManagedSystem?group=None", "")
	tag := header.Get("ETag")
	contains(t, body, `<etag:etag xmlns:etag="`+objectNamespace+`"`, ">-1204</etag:etag>",
		"<ManagedSystem:ManagedSystem xmlns:ManagedSystem=", "</ManagedSystem:ManagedSystem>", "<IOBuses>")
	if tag == "-1204" || strings.Contains(tag, `"`) || strings.Count(body, "<IOSlot>") != 4 { // twice under buses
		t.Errorf("ETag %s, %s", tag, body)
	}
	if _, _, body := p.expect(304, "GET", "/uom/ManagedSystem", "", "If-None-Match", tag); body != "" {
		t.Error(body)
	}
	p.fake.Change(func(_ *Options, systems []*System) { systems[0].Touch() })
	p.expect(200, "GET", "/uom/ManagedSystem", "", "If-None-Match", tag)
	_, _, body = p.expect(200, "GET", partitions, "") // NovaLink itself runs in a partition
	contains(t, body, "<PartitionName>novalink<")
	p.fake.Change(func(o *Options, _ []*System) { o.HMC = true })
	if _, _, body := p.expect(204, "GET", partitions, ""); body != "" {
		t.Error(body)
	}
}

// An error entry has a reason, a message, and the request with its session; an injected fault may have another body, or
// lose the answer before or after the request is performed.
func TestErrorEntriesAndFaults(t *testing.T) {
	p := ready(t)
	_, _, body := p.expect(404, "GET", "/uom/ManagedSystem/unknown", "")
	contains(t, body, "<HttpErrorResponse:HttpErrorResponse ", "<HTTPStatus>404<", "<Message>no such system<",
		"<RequestURI>/rest/api/uom/ManagedSystem/unknown<", "<RequestHeaders>X-API-Session: "+p.session)
	for _, status := range []int{500, 503} {
		p.fake.Inject(Fault{Status: status, Reason: "R", Message: "HSCL3205 busy", Times: 2})
		for range 2 {
			_, _, body := p.expect(status, "GET", "/uom/ManagedSystem", "")
			contains(t, body, "<ReasonCode>R<", "<Message>HSCL3205 busy<")
		}
		p.expect(200, "GET", "/uom/ManagedSystem", "")
	}
	p.fake.Inject(Fault{Status: 503, Plain: true, Message: "later"})
	if _, _, body := p.expect(503, "GET", "/uom/ManagedSystem", ""); body != "<html>later</html>" {
		t.Error(body)
	}
	for _, after := range []bool{false, true} {
		p.fake.Inject(Fault{Method: "PUT", After: after})
		p.expect(0, "PUT", partitions, lpar("a", "470810337"))
		if owners := p.owners(); (len(owners) == 1) != after {
			t.Errorf("after %v: %v", after, owners)
		}
	}
}

const partitions = "/uom/ManagedSystem/" + systemUUID + "/LogicalPartition"

// lpar returns a partition with slots.
func lpar(name string, indices ...string) string {
	text := `<p:LogicalPartition xmlns:p="` + objectNamespace + `"><p:PartitionIOConfiguration><p:ProfileIOSlots>`
	for _, index := range indices {
		text += "<p:ProfileIOSlot><p:AssociatedIOSlot><p:BusGroupingRequired>false</p:BusGroupingRequired>" +
			"<p:SlotDynamicReconfigurationConnectorIndex>" + index + "</p:SlotDynamicReconfigurationConnectorIndex>" +
			"</p:AssociatedIOSlot><p:IsRequired>false</p:IsRequired></p:ProfileIOSlot>"
	}
	return text + "</p:ProfileIOSlots></p:PartitionIOConfiguration><p:PartitionName>" + name + "</p:PartitionName>" +
		"<p:PartitionUUID>" + strings.ToUpper(name) + "</p:PartitionUUID></p:LogicalPartition>"
}

func (p *peer) owners() (out map[uint32]string) {
	p.fake.Change(func(_ *Options, systems []*System) { out = systems[0].Owners() })
	return out
}

// A slot belongs to one partition until it is deleted. What the real service rejects is rejected.
func TestPartitionsOwnTheirSlots(t *testing.T) {
	p := ready(t)
	good := lpar("a", "470810337")
	wrongOrder := strings.Replace(good, "<p:PartitionIOConfiguration>", "<p:PartitionType>x</p:PartitionType>"+
		"<p:PartitionIOConfiguration>", 1)
	flag := "<p:BusGroupingRequired>false</p:BusGroupingRequired>"
	index := "<p:SlotDynamicReconfigurationConnectorIndex>470810337</p:SlotDynamicReconfigurationConnectorIndex>"
	for what, body := range map[string]string{"unmarshalled": wrongOrder,
		"unmarshalled: ProfileIOSlot": strings.Replace(good, flag+index, index+flag, 1),
		"unmarshalled: PartitionIOConfiguration": strings.Replace(good, "</p:ProfileIOSlots>",
			"</p:ProfileIOSlots><p:MaximumVirtualIOSlots>64</p:MaximumVirtualIOSlots>", 1),
		"no I/O slot 1":                    lpar("a", "1"),
		"SlotDynamicReconfiguration":       lpar("a", "0x1C0FFEE1"),
		"has another BusGroupingRequired":  strings.Replace(good, "false", "true", 1),
		"PartitionName is not valid":       lpar("a(b)"),
		"the input payload could not be u": "not XML",
	} {
		_, _, answer := p.expect(400, "PUT", partitions, body)
		contains(t, answer, what)
	}
	_, _, answer := p.expect(201, "PUT", partitions, good)
	contains(t, answer, "<PartitionUUID>A</PartitionUUID>", "<PartitionState>not activated</PartitionState>",
		">470810337</SlotDynamicReconfigurationConnectorIndex>")
	_, _, answer = p.expect(400, "PUT", partitions, lpar("b", "470810337"))
	contains(t, answer, "HSCL1401")
	p.expect(409, "PUT", partitions, lpar("a"))
	_, _, answer = p.expect(200, "GET", "/uom/ManagedSystem", "")
	contains(t, answer, ">A</PartitionUUID>", ">a</PartitionName>")
	p.expect(204, "DELETE", "/uom/LogicalPartition/A", "")
	p.expect(404, "DELETE", "/uom/LogicalPartition/A", "")
	if owners := p.owners(); len(owners) != 0 {
		t.Errorf("owners %v", owners)
	}
}

// An update needs the present ETag, and replaces the slots. A running partition keeps its slots and is not deleted.
func TestUpdatesNeedTheETag(t *testing.T) {
	p := ready(t)
	const a = "/uom/LogicalPartition/A"
	_, header, _ := p.expect(201, "PUT", partitions, lpar("a", "470810337"))
	tag := header.Get("ETag")
	p.expect(412, "POST", a, lpar("a"))
	p.expect(412, "POST", a, lpar("a"), "If-Match", `"`+tag+`"`)
	p.expect(200, "POST", a, lpar("a", "470810338"), "If-Match", tag)
	p.expect(412, "POST", a, lpar("a"), "If-Match", tag)
	if owners := p.owners(); len(owners) != 1 || owners[470810338] != "a" {
		t.Errorf("owners %v", owners)
	}
	p.job("PowerOn")
	_, header, _ = p.expect(200, "GET", a, "")
	_, _, answer := p.expect(400, "POST", a, lpar("a"), "If-Match", header.Get("ETag"))
	contains(t, answer, "RMC")
	p.expect(400, "DELETE", a, "")
}

// job starts an operation of the partition A and returns the ID of its job.
func (p *peer) job(operation string) string {
	p.t.Helper()
	path := "/uom/LogicalPartition/A/do/" + operation
	_, _, template := p.expect(200, "GET", path, "")
	_, begin, _ := strings.Cut(template, "<content ")
	_, request, _ := strings.Cut(begin, ">")
	request, _, _ = strings.Cut(request, "</content>")
	_, _, answer := p.expect(200, "PUT", path, request)
	contains(p.t, answer, "<Status>NOT_STARTED</Status>")
	id := between(answer, "<JobID>", "</JobID>")
	p.expect(200, "GET", "/uom/jobs/"+id, "")
	return id
}

// Jobs complete, fail with a reason, or hang until they are cancelled.
func TestJobsCompleteFailAndHang(t *testing.T) {
	for end, want := range map[string][]string{"": {"COMPLETED_OK"}, "COMPLETED_WITH_ERROR": {"COMPLETED_WITH_ERROR",
		"returnCode", "the firmware complained"}, "FAILED_BEFORE_COMPLETION": {"FAILED_BEFORE_COMPLETION", "HSCL3656"},
		"RUNNING": {"RUNNING"}} {
		p := ready(t)
		p.expect(201, "PUT", partitions, lpar("a"))
		p.fake.Change(func(o *Options, _ []*System) { o.JobEnd = end })
		id := p.job("PowerOn")
		_, _, answer := p.expect(200, "GET", "/uom/jobs/"+id, "")
		contains(t, answer, want...)
		_, _, answer = p.expect(200, "GET", "/uom/LogicalPartition/A", "")
		if running := strings.Contains(answer, "<PartitionState>running<"); running != (end == "") {
			t.Errorf("%q: running %v", end, running)
		}
		if end == "RUNNING" {
			p.expect(204, "POST", "/uom/jobs/"+id+"/cancel", "")
			_, _, answer = p.expect(200, "GET", "/uom/jobs/"+id, "")
			contains(t, answer, "CANCELED")
		}
		p.expect(204, "DELETE", "/uom/jobs/"+id, "")
		p.expect(404, "GET", "/uom/jobs/"+id, "")
	}
}

// The recorded systems have the shapes that tests need, and are served as they are.
func TestRecordedSystemsAreServed(t *testing.T) {
	names := RecordedNames()
	for _, name := range []string{"old_firmware.xml", "management_console.xml", "sriov_adapters.xml", "starting.xml",
		"missing_container.xml", "no_slots.xml", "malformed_numbers.xml"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s does not exist", name)
		}
		p := newPeer(t, Options{TokenDir: t.TempDir(), Recorded: Recorded(name)})
		p.logOn()
		_, header, body := p.expect(200, "GET", "/uom/ManagedSystem", "")
		if body != string(Recorded(name)) {
			t.Errorf("%s is changed", name)
		}
		p.expect(304, "GET", "/uom/ManagedSystem", "", "If-None-Match", header.Get("ETag"))
	}
	if Recorded("none.xml") != nil {
		t.Error("a recording that does not exist")
	}
}
