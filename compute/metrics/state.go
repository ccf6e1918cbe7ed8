package metrics

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// MaxProjects is how many projects have series of their own: those with most servers. The others are counted together
// with an empty project.
const MaxProjects = 100

// MaxImageCaches is how many hosts have series of their own about their copies of images: those whose copies take most.
// The bytes of the others are counted together with an empty host.
const MaxImageCaches = 100

// Store is what the metrics need of the database; *store.Store implements it.
type Store interface {
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Dead(ctx context.Context) ([]string, error)
	DisabledHosts(ctx context.Context) (map[string]string, error)
	ServerCounts(ctx context.Context) (store.ServerCounts, error)
}

// Agents is what the metrics need of the presence of agents; *presence.Agents implements it.
type Agents interface {
	IsSilent(host string) bool
	LastSign(host string) (connected bool, quiet time.Duration)
	ImageCache(host string) (size host.ImageCache, known bool)
}

// Source is where the state of the cloud is read.
type Source struct {
	Store   Store
	Agents  Agents
	Backlog func() int
}

// State is what the cloud has at one time.
type State struct {
	Hosts      map[HostState]int
	Conditions map[condition.Level]int // hosts that report conditions, by their highest level
	Behind     int                     // hosts whose agents do not follow the assignments
	Quiet      time.Duration           // of the agent that has been silent for longest, of the hosts that are up
	Statuses   map[string]int
	Projects   map[string]int // at most MaxProjects; the others together have an empty name
	Devices    map[DeviceState]int
	Backlog    int
	Images     ImageCaches
}

// ImageCaches are the copies of images on the hosts that are up and whose agents know their size.
type ImageCaches struct {
	Bytes  map[string]float64 // by host: at most MaxImageCaches; the others together have an empty name
	Limits map[string]float64 // of these hosts, those that have one
	Over   int                // hosts whose copies take more than their limit
}

// HostState is the state of the service of a host as the Compute API shows it.
type HostState struct{ State, Status string }

// DeviceState is the class of a device with its state: one of pci.State, or disabled for one that would be available.
type DeviceState struct{ Class, State string }

// Read reads the state of the cloud. It returns fault.Unavailable if the database does not answer.
func (s Source) Read(ctx context.Context) (state State, err error) {
	counts, err := s.Store.ServerCounts(ctx)
	if err != nil {
		return state, err
	}
	hosts, err := s.Store.Hosts(ctx)
	if err != nil {
		return state, err
	}
	dead, err := s.Store.Dead(ctx)
	if err != nil {
		return state, err
	}
	off, err := s.Store.DisabledHosts(ctx)
	if err != nil {
		return state, err
	}
	state = State{Conditions: map[condition.Level]int{}, Statuses: counts.Statuses,
		Projects: largest(counts.Projects, MaxProjects), Backlog: s.Backlog(),
		Hosts: map[HostState]int{}, Devices: countDevices(hosts),
		Images: ImageCaches{Bytes: map[string]float64{}, Limits: map[string]float64{}}}
	for _, h := range hosts {
		s.addHost(&state, h, slices.Contains(dead, h.Name), off)
	}
	state.Images.bound(MaxImageCaches)
	return state, nil
}

// add counts the copies of images on a host.
func (c *ImageCaches) add(name string, size host.ImageCache) {
	c.Bytes[name] = float64(size.Bytes)
	if size.Limit == 0 {
		return
	}
	c.Limits[name] = float64(size.Limit)
	if size.Bytes > size.Limit {
		c.Over++
	}
}

// bound keeps the most hosts whose copies take most, and counts the others together.
func (c *ImageCaches) bound(most int) {
	c.Bytes = largest(c.Bytes, most)
	maps.DeleteFunc(c.Limits, func(name string, _ float64) bool {
		_, kept := c.Bytes[name]
		return !kept
	})
}

// addHost counts a host.
func (s Source) addHost(state *State, h schedule.Host, dead bool, off map[string]string) {
	of := HostState{State: "up", Status: "enabled"}
	if h.Down != "" || dead || s.Agents.IsSilent(h.Name) {
		of.State = "down"
	}
	if _, disabled := off[h.Name]; disabled {
		of.Status = "disabled"
	}
	state.Hosts[of]++
	if of.State == "up" {
		_, quiet := s.Agents.LastSign(h.Name)
		state.Quiet = max(state.Quiet, quiet)
		if size, known := s.Agents.ImageCache(h.Name); known {
			state.Images.add(h.Name, size)
		}
	}
	if h.NotFollowed != "" {
		state.Behind++
	}
	if worst := condition.Worst(h.Conditions); worst != "" {
		state.Conditions[worst]++
	}
}

// countDevices counts the devices of hosts. An available one that is out of service is disabled.
func countDevices(hosts []schedule.Host) map[DeviceState]int {
	out := map[DeviceState]int{}
	for _, h := range hosts {
		for _, d := range h.Devices {
			state := string(d.State)
			if d.State == pci.Available && d.Disabled {
				state = "disabled"
			}
			out[DeviceState{string(d.ResourceClass), state}]++
		}
	}
	return out
}

// largest returns the most entries with the largest numbers, and the sum of all others with an empty name.
func largest[N int | float64](all map[string]N, most int) map[string]N {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	out := map[string]N{}
	for i, name := range names {
		if i >= most {
			name = ""
		}
		out[name] += all[names[i]]
	}
	return out
}
