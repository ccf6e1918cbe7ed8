package server

// The limits of the Compute API for one server.
const (
	maxMetadata = 128
	maxTags     = 50
)

// onlyZone is the one availability zone, which has the name of OpenStack's default zone.
const onlyZone = "nova"
