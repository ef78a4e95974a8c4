package redact

// ruleSet has bit i set for rule i.
type ruleSet uint16

const (
	nameSet ruleSet = 1 << 0
	seedSet ruleSet = 1 << 2
)

const (
	classes = 64  // of bytes; a power of two, so that no index is out of range
	states  = 256 // of the automaton
)

// filter finds in one pass which rules have a literal in a text: an
// Aho-Corasick automaton over bytes without regard to ASCII case. It is what
// makes ordinary arguments cheap.
type filter struct {
	class [256]uint8
	next  [states * classes]uint8
	hits  [states]ruleSet
}

// newFilter panics if the literals outgrow the tables, which any test shows.
func newFilter(rules []rule) filter {
	var f filter
	known, used := 1, 1 // class 0: bytes in no literal; state 0: nothing seen
	for i, r := range rules {
		for _, literal := range r.literals {
			at := 0
			for _, c := range []byte(literal) {
				if f.class[c] == 0 {
					f.class[c] = uint8(known)
					known++
				}
				edge := &f.next[at*classes+int(f.class[c])]
				if *edge == 0 {
					*edge = uint8(used)
					used++
				}
				at = int(*edge)
			}
			f.hits[at] |= 1 << i
		}
	}
	if known > classes || used > states || len(rules) > 16 {
		panic("redact: the literals outgrow the filter")
	}
	for c := byte('A'); c <= 'Z'; c++ {
		f.class[c] = f.class[c+'a'-'A']
	}
	f.link()
	return f
}

// link completes the tree to an automaton: where a state has no edge of its
// own it takes the edge of the longest suffix that is also a state.
func (f *filter) link() {
	var suffix [states]uint8
	for queue := []uint8{0}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		f.hits[at] |= f.hits[suffix[at]]
		for c := range classes {
			edge, fallback := &f.next[int(at)*classes+c], f.next[int(suffix[at])*classes+c]
			switch {
			case *edge == 0:
				*edge = fallback
			default:
				if at != 0 {
					suffix[*edge] = fallback
				}
				queue = append(queue, *edge)
			}
		}
	}
}

// search gives the rules that s may concern.
func search[T ~string | ~[]byte](f *filter, s T) ruleSet {
	var found ruleSet
	state := uint8(0)
	for i := range len(s) {
		state = f.next[int(state)*classes+int(f.class[s[i]]&(classes-1))]
		found |= f.hits[state]
	}
	if hasSeedRun(s) {
		found |= seedSet
	}
	return found
}

// hasSeedRun says whether s has a run of seedLen base32 bytes. Such a run
// covers a multiple of its length, so one byte in seedLen is looked at.
func hasSeedRun[T ~string | ~[]byte](s T) bool {
	for i := seedLen - 1; i < len(s); i += seedLen {
		from, to := i, i
		for from > 0 && i-from < seedLen && isBase32(s[from-1]) {
			from--
		}
		for to < len(s) && to-from < seedLen && isBase32(s[to]) {
			to++
		}
		if to-from >= seedLen {
			return true
		}
	}
	return false
}

func isBase32(c byte) bool { return 'A' <= c && c <= 'Z' || '2' <= c && c <= '7' }
