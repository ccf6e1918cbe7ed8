package novalink

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// partition is a logical partition. Its object is what clients sent, with what the server adds.
type partition struct {
	id, uuid string
	object   *element
	running  bool
	revision int
}

func (p *partition) name() string { return p.object.childText("PartitionName") }

func (p *partition) etag() string { return strconv.Itoa(449450179 + p.revision) }

// memory returns the memory of the partition in MiB.
func (p *partition) memory() int {
	n, _ := strconv.Atoi(p.object.childText("PartitionMemoryConfiguration", "DesiredMemory")) // absent: 0
	return n
}

// units returns the processor units of the partition.
func (p *partition) units() float64 {
	n, _ := strconv.ParseFloat(p.object.childText("PartitionProcessorConfiguration", "SharedProcessorConfiguration",
		"DesiredProcessingUnits"), 64) // absent: 0
	return n
}

// slots returns the DRC indices of the partition's slots.
func (p *partition) slots() (list []uint32) {
	indices, _ := profileSlots(p.object)
	return indices
}

// profileSlots returns the indices in a partition's object, or why it is not valid.
func profileSlots(object *element) (list []uint32, why string) {
	io := object.child("PartitionIOConfiguration")
	if io != nil && !inOrder(io, "Metadata", "MaximumVirtualIOSlots", "ProfileIOSlots") {
		return nil, "PartitionIOConfiguration"
	}
	profile := object.child("PartitionIOConfiguration", "ProfileIOSlots")
	if profile == nil {
		return nil, ""
	}
	for _, s := range profile.children {
		slot := s.child("AssociatedIOSlot")
		if !inOrder(s, "Metadata", "AssociatedIOSlot", "IsRequired") || slot == nil || !inOrder(slot, "Metadata",
			"BusGroupingRequired", "SlotDynamicReconfigurationConnectorIndex") {
			return nil, "ProfileIOSlot"
		}
		n, err := strconv.ParseUint(slot.childText("SlotDynamicReconfigurationConnectorIndex"), 10, 32)
		if err != nil {
			return nil, "SlotDynamicReconfigurationConnectorIndex"
		}
		list = append(list, uint32(n))
	}
	return list, ""
}

// partitionOrder is the order of the elements of a partition.
var partitionOrder = []string{"Metadata", "AllowPerformanceDataCollection", "AvailabilityPriority", "PartitionID",
	"PartitionIOConfiguration", "PartitionMemoryConfiguration", "PartitionName", "PartitionProcessorConfiguration",
	"PartitionState", "PartitionType", "PartitionUUID", "PendingProcessorCompatibilityMode",
	"SimplifiedRemoteRestartCapable"}

// inOrder reports whether the children are some of these names, in this order.
func inOrder(e *element, names ...string) bool {
	last := -1
	for _, c := range e.children {
		i := slices.Index(names, c.name.Local)
		if i <= last {
			return false
		}
		last = i
	}
	return true
}

// entry returns the partition as an Atom entry.
func (p *partition) entry() *element {
	state := "not activated"
	if p.running {
		state = "running"
	}
	object := *p.object
	object.children = slices.DeleteFunc(slices.Clone(p.object.children), func(e *element) bool {
		return slices.Contains([]string{"PartitionID", "PartitionState", "PartitionUUID"}, e.name.Local)
	})
	for _, added := range []*element{obj("PartitionID").text(p.id), obj("PartitionState").text(state),
		obj("PartitionUUID").text(p.uuid)} {
		at := slices.IndexFunc(object.children, func(e *element) bool {
			return slices.Index(partitionOrder, e.name.Local) > slices.Index(partitionOrder, added.name.Local)
		})
		if at < 0 {
			at = len(object.children)
		}
		object.children = slices.Insert(object.children, at, added)
	}
	object.children = slices.Clone(object.children)
	for i, e := range object.children {
		if e.name.Local == "PartitionMemoryConfiguration" {
			object.children[i] = p.currentMemory(e)
		}
	}
	return entryOf(p.uuid, p.etag(), &object)
}

// currentMemory returns the memory configuration with the memory that the partition has now.
func (p *partition) currentMemory(configured *element) *element {
	now := 0
	if p.running {
		now = p.memory()
	}
	out := *configured
	out.children = slices.DeleteFunc(slices.Clone(configured.children), func(e *element) bool {
		return e.name.Local == "CurrentMemory"
	})
	out.add(obj("CurrentMemory").text(strconv.Itoa(now)))
	return &out
}

// management returns the entry of the partition in which NovaLink itself runs. It is not one of System.partitions.
func (s *System) management() *element {
	const uuid = "0ABCDEF0-0000-4000-8000-00000000FFFF"
	return entryOf(uuid, "1", obj("LogicalPartition", obj("PartitionID").text("1"),
		obj("PartitionName").text("novalink"), obj("PartitionState").text("running"),
		obj("PartitionType").text("AIX/Linux"), obj("PartitionUUID").text(uuid)))
}

// check returns the refusal of a partition's object, or a reply without status.
func (s *System) check(object *element, self *partition) reply {
	if object == nil || object.name.Local != "LogicalPartition" || !inOrder(object, partitionOrder...) {
		return refuse(http.StatusBadRequest, "", "the input payload could not be unmarshalled")
	}
	if name := object.childText("PartitionName"); name == "" || len(name) > 31 || strings.ContainsAny(name,
		"()\\<>*$&?|[]'\"`") {
		return refuse(http.StatusBadRequest, "", "PartitionName is not valid")
	}
	memory := object.childText("PartitionMemoryConfiguration", "DesiredMemory")
	if n, err := strconv.Atoi(memory); memory != "" && (err != nil || n%Region != 0) {
		return refuse(http.StatusBadRequest, "", "HSCL1406 the memory %s is not a multiple of the region size", memory)
	}
	indices, why := profileSlots(object)
	if why != "" {
		return refuse(http.StatusBadRequest, "", "the input payload could not be unmarshalled: %s", why)
	}
	if index, ok := s.wrongGrouping(object); ok {
		return refuse(http.StatusBadRequest, "", "HSCL1402 the I/O slot %s has another BusGroupingRequired", index)
	}
	for _, index := range indices {
		slot, owner := s.slot(index), s.owner(index)
		switch {
		case slot == nil:
			return refuse(http.StatusBadRequest, "", "HSCL1400 there is no I/O slot %d", index)
		case owner != nil && owner != self:
			s.Contested = append(s.Contested, fmt.Sprintf("%08X of %s for %s", index, owner.name(),
				object.childText("PartitionName")))
			return refuse(http.StatusBadRequest, "", "HSCL1401 the I/O slot %d is in use", index)
		case slot.ForeignID != "" || slices.Contains(s.SRIOV, fmt.Sprint(index)):
			return refuse(http.StatusBadRequest, "", "HSCL1401 the I/O slot %d is in use", index)
		}
	}
	return reply{}
}

// wrongGrouping returns the index of a slot that is requested with another BusGroupingRequired than its own.
func (s *System) wrongGrouping(object *element) (index string, wrong bool) {
	profile := object.child("PartitionIOConfiguration", "ProfileIOSlots")
	if profile == nil {
		return "", false
	}
	for _, p := range profile.children {
		requested := p.child("AssociatedIOSlot")
		index = requested.childText("SlotDynamicReconfigurationConnectorIndex")
		for _, slot := range s.Slots {
			if fmt.Sprint(slot.Index) == index && requested.childText("BusGroupingRequired") != fmt.Sprint(slot.BusGrouping) {
				return index, true
			}
		}
	}
	return "", false
}

// create creates a partition.
func (s *System) create(r *http.Request, object *element) reply {
	if !strings.HasSuffix(r.Header.Get("Content-Type"), "uom+xml; type=LogicalPartition") {
		return refuse(http.StatusUnsupportedMediaType, "", "the Content-Type is not that of a LogicalPartition")
	}
	if refused := s.check(object, nil); refused.status != 0 {
		return refused
	}
	uuid := object.childText("PartitionUUID")
	for _, p := range s.partitions {
		if p.uuid == uuid && uuid != "" || p.name() == object.childText("PartitionName") {
			return refuse(http.StatusConflict, "", "HSCL1405 the partition exists")
		}
	}
	if s.IgnoresSlots {
		detach(object)
	}
	s.lastID++
	if uuid == "" || s.ChoosesUUIDs {
		uuid = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.lastID)
	}
	p := &partition{id: fmt.Sprint(s.lastID + 1), uuid: uuid, object: object}
	s.partitions = append(s.partitions, p)
	s.Touch()
	return reply{status: http.StatusCreated, etag: p.etag(), body: p.entry()}
}

// servePartition answers GET, POST and DELETE of a partition.
func (s *Server) servePartition(r *http.Request, system *System, p *partition, object *element) reply {
	switch r.Method {
	case http.MethodGet:
		return reply{status: http.StatusOK, etag: p.etag(), body: p.entry()}
	case http.MethodDelete:
		if p.running {
			return refuse(http.StatusBadRequest, "", "HSCL1540 the partition is running")
		}
		system.partitions = slices.DeleteFunc(system.partitions, func(one *partition) bool { return one == p })
		system.Touch()
		return reply{status: http.StatusNoContent}
	case http.MethodPost:
		if r.Header.Get("If-Match") != p.etag() {
			return refuse(http.StatusPreconditionFailed, "", "the ETag does not match")
		}
		if refused := system.check(object, p); refused.status != 0 {
			return refused
		}
		if now, _ := profileSlots(object); p.running && !slices.Equal(now, p.slots()) {
			return refuse(http.StatusBadRequest, "", "HSCL2957 no RMC connection to the running partition")
		}
		if system.IgnoresUpdates {
			detach(object)
		}
		p.object = object
		p.revision++
		system.Touch()
		return reply{status: http.StatusOK, etag: p.etag(), body: p.entry()}
	}
	return refuse(http.StatusMethodNotAllowed, "", "not allowed")
}

// StopPartitions stops all partitions, as their users may. It must be called in Server.Change.
func (s *System) StopPartitions() {
	for _, p := range s.partitions {
		p.running = false
		p.revision++
	}
}

// DeletePartitions deletes all partitions, as an administrator may. It must be called in Server.Change.
func (s *System) DeletePartitions() {
	s.partitions = nil
	s.Touch()
}

// PartitionSlots returns the DRC indices of each partition's slots, by UUID. It must be called in Server.Change.
func (s *System) PartitionSlots() map[string][]uint32 {
	out := map[string][]uint32{}
	for _, p := range s.partitions {
		out[p.uuid] = p.slots()
	}
	return out
}

// PartitionText returns a text in the object of each partition, such as that of PartitionType. It must be called in
// Server.Change.
func (s *System) PartitionText(path ...string) (list []string) {
	for _, p := range s.partitions {
		list = append(list, p.object.childText(path...))
	}
	return list
}

// DetachSlots takes the slots from all partitions, as an administrator may. It must be called in Server.Change.
func (s *System) DetachSlots() {
	for _, p := range s.partitions {
		detach(p.object)
		p.revision++
	}
	s.Touch()
}

// detach removes the slots from a partition's object.
func detach(object *element) {
	if profile := object.child("PartitionIOConfiguration", "ProfileIOSlots"); profile != nil {
		profile.children = nil
	}
}
