package request

// The limits of the Compute API for one server.
const (
	MaxMetadata = 128
	MaxTags     = 50
)

// OnlyZone is the one availability zone, which has the name of OpenStack's default zone.
const OnlyZone = "nova"
