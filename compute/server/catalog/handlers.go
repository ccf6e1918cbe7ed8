// Package catalog holds the resources of the Compute API that servers are made from and counted in: flavors, their
// extra specs, images, key pairs, quotas, limits and usage. Each resource has its file, with its paths, its handlers
// and its views.
package catalog

import (
	"context"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
)

// FlavorStore is what the handlers need of flavors in the database; *store.Store implements it, as the other stores of
// this package, and documents the faults.
type FlavorStore interface {
	CreateFlavor(ctx context.Context, f flavor.Flavor) error
	Flavor(ctx context.Context, id string) (flavor.Flavor, error)
	Flavors(ctx context.Context, f store.FlavorFilter) ([]flavor.Flavor, error)
	DescribeFlavor(ctx context.Context, id, description string) error
	DeleteFlavor(ctx context.Context, id string) error
	SetExtraSpecs(ctx context.Context, id string, specs map[string]string) error
	DeleteExtraSpec(ctx context.Context, id, key string) error
	FlavorAccess(ctx context.Context, flavor string) ([]string, error)
	AddFlavorAccess(ctx context.Context, flavor, project string) error
	RemoveFlavorAccess(ctx context.Context, flavor, project string) error
}

// KeyPairStore is what the handlers need of key pairs.
type KeyPairStore interface {
	CreateKeyPair(ctx context.Context, k store.KeyPair, most int) (store.KeyPair, error)
	KeyPair(ctx context.Context, user, name string) (store.KeyPair, error)
	KeyPairs(ctx context.Context, user, after string, limit int) ([]store.KeyPair, error)
	DeleteKeyPair(ctx context.Context, user, name string) error
}

// GroupStore is what the handlers need of server groups.
type GroupStore interface {
	CreateServerGroup(ctx context.Context, g store.ServerGroup, limits store.ProjectLimits) error
	ServerGroup(ctx context.Context, id string) (store.ServerGroup, error)
	ServerGroups(ctx context.Context, project string) ([]store.ServerGroup, error)
	DeleteServerGroup(ctx context.Context, id string) error
}

// UsageStore is what the handlers need to sum up the usage of projects.
type UsageStore interface {
	ListedServers(ctx context.Context, ids []string) (map[string]lifecycle.Server, error)
	UsedServers(ctx context.Context, f store.UsageFilter) ([]store.UsedServer, error)
}

// QuotaStore is what the handlers need of quotas: limits and what is used.
type QuotaStore interface {
	Limits(ctx context.Context, project, user string) (store.ProjectLimits, error)
	ClassLimits(ctx context.Context, class string) (quota.Amounts, error)
	LimitsElsewhere() bool
	QuotaUse(ctx context.Context, project, user string) (quota.Amounts, error)
	SetLimits(ctx context.Context, o store.QuotaOwner, limits quota.Amounts) error
	ResetLimits(ctx context.Context, project, user string) error
}

// Images is what the handlers need of an image service; *image.Client implements it. Methods return fault.NotFound for
// an image that the caller may not see, fault.Forbidden if the service rejects the token, and fault.Unavailable if the
// service does not answer.
type Images interface {
	Image(ctx context.Context, who identity.Identity, token, id string) (image.Image, error)
	Images(ctx context.Context, who identity.Identity, token string) ([]image.Image, error)
	Delete(ctx context.Context, who identity.Identity, token, id string) error
}

// FlavorOptions determine what flavors and images can contain.
type FlavorOptions struct {
	Aliases        pci.Aliases // [pci] alias
	PCIInPlacement bool        // [filter_scheduler] pci_in_placement
	Ignored        []string    // [berth] ignored_properties: names of extra specs and image properties
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	FlavorOptions
	Flavors  FlavorStore
	KeyPairs KeyPairStore
	Groups   GroupStore
	Usages   UsageStore
	Quotas   QuotaStore
	Images   Images // nil: there is no image service, so no image can complete a flavor
	Now      func() time.Time
	NewID    func() string
}
