package request

// MaxTags is how many tags a server may have.
const MaxTags = 50

// OnlyZone is the one availability zone, which has the name of OpenStack's default zone.
const OnlyZone = "nova"
