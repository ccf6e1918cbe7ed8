package uom

import "encoding/xml"

// LogonRequest returns the body of a logon: with a password, or for a session file if the password is empty.
func LogonRequest(user, password string) []byte {
	proof := webText("Password", password)
	if password == "" {
		proof = webText("GenerateX-API-SessionFile", "true")
	}
	root := webElement("LogonRequest", webText("UserID", user), proof).With("schemaVersion", "V1_0")
	return root.Bytes()
}

// AddParameters adds parameters to the request of a job, as the server's template has it.
func AddParameters(request *Element, parameters ...JobParameter) {
	list := request.Child("JobParameters")
	if list == nil {
		list = webElement("JobParameters").With("schemaVersion", "V1_0")
		request.Children = append(request.Children, list)
	}
	for _, p := range parameters {
		list.Children = append(list.Children, webElement("JobParameter", webText("ParameterName", p.Name),
			webText("ParameterValue", p.Value)).With("schemaVersion", "V1_0"))
	}
}

func webElement(name string, children ...*Element) *Element {
	return &Element{Name: xml.Name{Space: WebNamespace, Local: name}, Children: children}
}

func webText(name, text string) *Element {
	e := webElement(name)
	e.Text = text
	return e
}

// ProfileSlots returns the container of slots of a partition. Each slot needs its DRC index, as decimal text, and its
// own BusGroupingRequired; required says that the partition cannot start without the slot.
func ProfileSlots(slots []IOSlot, required bool) *Element {
	flag := "false"
	if required {
		flag = "true"
	}
	list := NewElement("ProfileIOSlots").With("schemaVersion", "V1_0")
	for _, s := range slots {
		list.Children = append(list.Children, complexElement("ProfileIOSlot",
			complexElement("AssociatedIOSlot", NewText("BusGroupingRequired", s.BusGrouping),
				NewText("SlotDynamicReconfigurationConnectorIndex", s.Index)),
			NewText("IsRequired", flag)))
	}
	return list
}

// complexElement returns an element that begins with metadata, as most elements with children must.
func complexElement(name string, children ...*Element) *Element {
	all := append([]*Element{NewElement("Metadata", NewElement("Atom"))}, children...)
	return NewElement(name, all...).With("schemaVersion", "V1_0")
}
