package endpoint

import "github.com/google/uuid"

// Bound sets how much the directory keeps.
func (d *Directory) Bound(weight int) { d.most = weight }

// Kept is how much it keeps: of how many tenants, and of what weight.
func (d *Directory) Kept() (tenants, weight int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := 0
	for _, s := range d.sets {
		sum += s.weight
	}
	if sum != d.weight {
		panic("the directory has lost count")
	}
	return len(d.sets), d.weight
}

// BoundTargets sets how many bytes of targets the store keeps.
func (st *Store) BoundTargets(bytes int) { st.targets.most = bytes }

// KeptTargets is which targets the store keeps.
func (st *Store) KeptTargets() []uuid.UUID {
	c := st.targets
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []uuid.UUID
	sum := 0
	for e := c.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(kept)
		ids = append(ids, k.target.ID)
		sum += k.bytes
	}
	if sum != c.bytes || len(ids) != len(c.byID) {
		panic("the store has lost count of its targets")
	}
	return ids
}
