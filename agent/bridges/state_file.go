package bridges

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// State returns the networks of the host as they were made last.
func (b *Bridges) State() (network.HostNetworks, error) {
	all, _, err := b.last()
	return all, err
}

// readState reads the file of the state. A missing file is that of a host without networks.
func readState(file string) (all network.HostNetworks, known bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return all, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return all, false, fault.New(fault.Internal, "the networks of this host are not known: %s: %w; remove the file to "+
			"read them from the network service", file, err)
	}
	return all, true, nil
}

// last returns the last state. known reports whether there is one: read from the file, or from the service before.
func (b *Bridges) last() (all network.HostNetworks, known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.read {
		if b.state, b.known, err = readState(b.o.File); err != nil {
			return all, false, err
		}
		b.read = true
	}
	return b.state, b.known, nil
}

// keep stores a state before it is made.
func (b *Bridges) keep(all network.HostNetworks) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if reflect.DeepEqual(all, b.state) || len(all.Networks) == 0 && !b.known {
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = datafile.Replace(b.o.File, append(text, '\n'))
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the networks of this host cannot be stored: %w", err)
	}
	b.state, b.known = all, true
	return nil
}
