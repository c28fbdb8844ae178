package physics

import "slices"

// cache is the paged KV cache with its prefixes.
type cache struct {
	size     int // tokens of a block
	blocks   int
	used     int // by running requests
	idle     int // by prefixes that no running request uses
	off      bool
	prefixes []*prefix
}

// prefix is a shared prefix in the cache.
type prefix struct {
	id, blocks, users int
	last              float64 // use
}

// of returns how many blocks of its own a request of that many tokens needs.
func (c *cache) of(tokens int, p *prefix) int {
	n := (tokens + c.size - 1) / c.size
	if p != nil {
		n -= p.blocks
	}
	return max(0, n)
}

// lacks returns how many blocks a request needs beyond its own to decode for that
// many steps.
func (c *cache) lacks(s *sequence, steps int) int {
	over := s.tokens() + steps - 1 - s.room
	if over <= 0 {
		return 0
	}
	return (over + c.size - 1) / c.size
}

// grow allocates more blocks for a request.
func (c *cache) grow(s *sequence, n int) bool {
	if !c.take(n) {
		return false
	}
	s.blocks += n
	s.room += n * c.size
	return true
}

// take takes blocks, if need be those of idle prefixes, the one used longest ago
// first.
func (c *cache) take(n int) bool {
	if c.used+n > c.blocks {
		return false
	}
	c.used += n
	for c.used+c.idle > c.blocks {
		oldest := -1
		for i, p := range c.prefixes {
			if p.users == 0 && (oldest < 0 || p.last < c.prefixes[oldest].last) {
				oldest = i
			}
		}
		c.idle -= c.prefixes[oldest].blocks
		c.prefixes = slices.Delete(c.prefixes, oldest, oldest+1)
	}
	return true
}

// admit takes the blocks for all that a request has to compute. It returns how many
// of its tokens need not be computed.
func (c *cache) admit(s *sequence, now float64) (hit int, fits bool) {
	shared := min(s.Shared, s.Prompt-1) / c.size
	if s.Prefix == 0 || shared == 0 || c.off {
		n := c.of(s.goal, nil)
		s.blocks, s.room = 0, 0
		return 0, c.grow(s, n)
	}
	i := slices.IndexFunc(c.prefixes, func(p *prefix) bool { return p.id == s.Prefix && p.blocks == shared })
	p := &prefix{id: s.Prefix, blocks: shared}
	if i >= 0 {
		p = c.prefixes[i]
	}
	own, joins := c.of(s.goal, p), 0
	if p.users == 0 {
		joins = p.blocks
	}
	if c.used+own+joins > c.blocks {
		return 0, false
	}
	if i >= 0 && p.users == 0 {
		c.idle -= p.blocks
	}
	if i < 0 {
		c.prefixes = append(c.prefixes, p)
	} else {
		hit = p.blocks * c.size
	}
	p.users, p.last = p.users+1, now
	s.prefix, s.blocks, s.room = p, 0, p.blocks*c.size
	return hit, c.take(joins) && c.grow(s, own)
}

// release frees the blocks of a request. Its prefix stays until others need the
// room.
func (c *cache) release(s *sequence, now float64) {
	c.used -= s.blocks
	s.blocks = 0
	p := s.prefix
	if p == nil {
		return
	}
	s.prefix = nil
	p.last = now
	if p.users--; p.users == 0 {
		c.used -= p.blocks
		c.idle += p.blocks
	}
}
