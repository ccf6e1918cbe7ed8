package store

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// The ids of aggregates can be recognised: Placement may have a membership of an aggregate that compute's database does
// not have any more, because it was restored from a backup. Their last six bytes follow from the others.

// NewAggregateUUID returns the id of a new aggregate: a UUID of version 8.
func NewAggregateUUID() string {
	id := uuid.New()
	id[6] = id[6]&0x0f | 0x80
	copy(id[10:], aggregateSum(id))
	return id.String()
}

// IsAggregateUUID reports whether NewAggregateUUID has made an id. Another id is one with a probability of 2^-52.
func IsAggregateUUID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.Version() == 8 && string(id[10:]) == string(aggregateSum(id))
}

// aggregateSum returns the last bytes of the id of an aggregate that begins with these.
func aggregateSum(id uuid.UUID) []byte {
	sum := sha256.Sum256(append([]byte("berth host aggregate "), id[:10]...))
	return sum[:6]
}
