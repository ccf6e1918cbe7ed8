package identity

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// cacheKey identifies a token in a cache. It never has the token itself.
type cacheKey struct {
	sum     [sha256.Size]byte
	expired bool // validated with allow_expired, whose answers differ
}

// cache stores a bounded number of answers for a time. It evicts the least recently used ones first.
type cache[V any] struct {
	size int

	mu      sync.Mutex // guards what is below
	entries map[cacheKey]*list.Element
	order   list.List // of *cached, the newest in front
}

type cached[V any] struct {
	key   cacheKey
	value V
	until time.Time
}

func newCache[V any](size int) *cache[V] {
	return &cache[V]{size: size, entries: map[cacheKey]*list.Element{}}
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
	for c.order.Len() > c.size {
		c.drop(c.order.Back())
	}
}

func (c *cache[V]) drop(element *list.Element) {
	delete(c.entries, element.Value.(*cached[V]).key)
	c.order.Remove(element)
}
