package endpoint

import (
	"fmt"
	"strings"

	gobwas "github.com/gobwas/glob"

	"github.com/sallyport-dev/sallyport/internal/glob"
)

// pattern is one compiled glob with a star.
//
// The library backtracks: a "**" of its own, followed by stars, costs it a thousand times what a plain glob does, and a
// second star in a segment lets it run for minutes. So it is given neither. The grammar allows one star a segment, which
// stops at the separator; and the "**" are taken out here. The blocks before the first and after the last one have
// their place at the ends of a text. Only a block between two of them has to be tried at each place, of which there
// are, in a text of 64 segments, at most 64; so matching reads no more than 32 × 32 segments.
type pattern struct {
	blocks []block // one; or two, around a "**"; or three
	least  int     // segments that a text must have
	ours   bool    // it begins with the segment "gateway"
}

// block is a run of segments without a "**". An empty one is at home anywhere.
type block struct {
	segments int
	glob     *gobwas.Pattern // nil if the block is empty
}

func newPattern(p glob.Pattern) (pattern, error) {
	compiled := pattern{ours: p.First() == ours}
	for _, text := range p.Blocks() {
		if text == "" {
			compiled.blocks = append(compiled.blocks, block{})
			continue
		}
		g, err := gobwas.Compile(text, rune(p.Separator()))
		if err != nil { // the grammar leaves nothing that the library refuses
			return pattern{}, fmt.Errorf("compile the glob %q: %w", p, err)
		}
		b := block{strings.Count(text, string(p.Separator())) + 1, g}
		compiled.blocks = append(compiled.blocks, b)
		compiled.least += b.segments
	}
	return compiled, nil
}

// segmented is a text with the places of its segments: segment i is text[starts[i] : starts[i+1]-1].
type segmented struct {
	text   string
	n      int
	starts [glob.MaxBytes/2 + 2]uint8
}

// cut finds the segments of a valid text: at most 128 bytes, none of its segments empty.
func cut(text string, separator byte) segmented {
	t := segmented{text: text, n: 1}
	if len(text) > glob.MaxBytes {
		return segmented{}
	}
	for i := range len(text) {
		if text[i] == separator && t.n < len(t.starts)-1 {
			t.starts[t.n] = uint8(i + 1)
			t.n++
		}
	}
	t.starts[t.n] = uint8(len(text) + 1)
	return t
}

func (p pattern) admits(t *segmented) bool {
	if t.n < p.least {
		return false
	}
	first, last := p.blocks[0], p.blocks[len(p.blocks)-1]
	if len(p.blocks) == 1 {
		return t.n == first.segments && first.at(t, 0)
	}
	tail := t.n - last.segments
	if !first.at(t, 0) || !last.at(t, tail) {
		return false
	}
	if len(p.blocks) == 2 {
		return true
	}
	middle := p.blocks[1]
	for i := first.segments; i+middle.segments <= tail; i++ {
		if middle.at(t, i) {
			return true
		}
	}
	return false
}

// at says whether the block matches the segments from i on.
func (b block) at(t *segmented, i int) bool {
	return b.segments == 0 || b.glob.Match(t.text[t.starts[i]:t.starts[i+b.segments]-1])
}
