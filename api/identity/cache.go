package identity

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// key is a token in a cache: never the token itself.
type cacheKey struct {
	sum     [sha256.Size]byte
	expired bool // asked with allow_expired, which has answers of its own
}

// cache keeps a bounded number of answers for a time; the ones used longest ago go first.
type cache[V any] struct {
	most int

	mu      sync.Mutex // guards what is below
	entries map[cacheKey]*list.Element
	order   list.List // of *cached, the newest in front
}

type cached[V any] struct {
	key   cacheKey
	value V
	until time.Time
}

func newCache[V any](most int) *cache[V] {
	return &cache[V]{most: most, entries: map[cacheKey]*list.Element{}}
}

func (c *cache[V]) get(k cacheKey, now time.Time) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.entries[k]
	if !found {
		return value, false
	}
	entry := element.Value.(*cached[V])
	if !now.Before(entry.until) {
		c.drop(element)
		return value, false
	}
	c.order.MoveToFront(element)
	return entry.value, true
}

func (c *cache[V]) put(k cacheKey, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.entries[k]; found {
		c.drop(element)
	}
	c.entries[k] = c.order.PushFront(&cached[V]{k, value, until})
	for c.order.Len() > c.most {
		c.drop(c.order.Back())
	}
}

func (c *cache[V]) drop(element *list.Element) {
	delete(c.entries, element.Value.(*cached[V]).key)
	c.order.Remove(element)
}
