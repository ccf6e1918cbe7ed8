package survey

import "github.com/openberth/berth/provider"

// ProviderID returns the ID of a device provider that does not exist yet. It is derived from the root and the name, so
// that its creation may be repeated.
func ProviderID(root provider.ID, name string) provider.ID { return provider.IDFromName(root, name) }

// id returns the ID of a device provider by its name.
func (f Facts) id(name string) provider.ID {
	if p, there := f.Actual.ByName(name); there {
		return p.ID
	}
	return ProviderID(f.Root, name)
}
