package uom

import (
	"strings"
	"testing"
)

func TestFeedRefusesOtherDocuments(t *testing.T) {
	for data, text := range map[string]string{
		"<html>busy</html>": "not an Atom feed or entry", "<feed><entry></feed>": "not well-formed", "x": "not well-formed",
		"<feed><entry><content/></entry></feed>":                      "0 objects",
		"<entry><content><A/><A/></content></entry>":                  "2 objects",
		"<feed><entry><content><A/></content></entry></feed>":         "has a A, not a JobResponse",
		"<feed><entry/><entry><content><A/></content></entry></feed>": "0 objects",
	} {
		if _, err := Feed[JobResponse]([]byte(data), "JobResponse"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", data, err)
		}
	}
	if list, err := Feed[JobResponse](nil, "JobResponse"); err != nil || list != nil { // status 204
		t.Errorf("%v %v", list, err)
	}
	if _, err := One[JobResponse](nil, "JobResponse"); err == nil {
		t.Error("an instance without a body")
	}
}

func TestEntryWithPrefixesAndETag_S4_S7(t *testing.T) {
	e, err := One[JobResponse]([]byte(`<a:entry xmlns:a="http://www.w3.org/2005/Atom"><a:id> 7 </a:id>
		<etag:etag xmlns:etag="u"> -1204 </etag:etag><a:content>
		<JobResponse:JobResponse xmlns:JobResponse="w" xmlns="w"><Unknown><JobID>no</JobID></Unknown><JobID kb="ROR">5</JobID>
		<Results><JobParameter><ParameterName>result</ParameterName><ParameterValue><![CDATA[a & b]]></ParameterValue>
		</JobParameter></Results></JobResponse:JobResponse></a:content></a:entry>`), "JobResponse")
	if err != nil || e.ID != "7" || e.ETag != "-1204" || e.Object.ID != "5" || len(e.Object.Results) != 1 ||
		e.Object.Results[0].Value != "a & b" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestElementKeepsWhatItDoesNotInterpret(t *testing.T) {
	const text = `<P:A xmlns:P="one" xmlns="one" schemaVersion="V1">` +
		`<B kb="x&quot;y">t &lt; u</B><c xmlns="two"><d/></c><e/></P:A>`
	e, err := ParseElement([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = `<A xmlns="one" schemaVersion="V1"><B kb="x&#34;y">t &lt; u</B><c xmlns="two"><d></d></c><e></e></A>`
	if got := string(e.Bytes()); got != want {
		t.Errorf("got %s", got)
	}
	if e.ChildText("c", "none") != "" || e.ChildText("B") != "t < u" {
		t.Error("ChildText")
	}
	for _, bad := range []string{"", "<a/><b/>", "<a>", strings.Repeat("<a>", maxDepth+1)} {
		if _, err := ParseElement([]byte(bad)); err == nil {
			t.Errorf("%.20s is accepted", bad)
		}
	}
}

// The server needs the elements in the order of its schema, and decimal numbers.
func TestProfileSlots_R49(t *testing.T) {
	got := string(ProfileSlots([]IOSlot{{Index: "470810337", BusGrouping: "true"}}, false).Bytes())
	const meta = `<Metadata><Atom></Atom></Metadata>`
	want := `<ProfileIOSlots xmlns="` + Namespace + `" schemaVersion="V1_0"><ProfileIOSlot schemaVersion="V1_0">` + meta +
		`<AssociatedIOSlot schemaVersion="V1_0">` + meta + `<BusGroupingRequired>true</BusGroupingRequired>` +
		`<SlotDynamicReconfigurationConnectorIndex>470810337</SlotDynamicReconfigurationConnectorIndex>` +
		`</AssociatedIOSlot><IsRequired>false</IsRequired></ProfileIOSlot></ProfileIOSlots>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLogonRequest_S3(t *testing.T) {
	const start = `<LogonRequest xmlns="` + WebNamespace + `" schemaVersion="V1_0"><UserID>u</UserID>`
	for password, want := range map[string]string{
		"":    start + `<GenerateX-API-SessionFile>true</GenerateX-API-SessionFile></LogonRequest>`,
		"<&>": start + `<Password>&lt;&amp;&gt;</Password></LogonRequest>`,
	} {
		if got := string(LogonRequest("u", password)); got != want {
			t.Errorf("got %s", got)
		}
	}
}
