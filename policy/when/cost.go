package when

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// prices say what a call of a function cost, by the work that it was: about one for
// ten bytes, and one for each value that was looked at. CEL's own prices take what is
// inside a list for one, and the work on a text whose type is not known before for
// one too. A match costs by its pattern's text or, where that is more, by its program, so
// that those of one evaluation stay near [MaxMatching] in a loop too.
type prices struct{ sizes map[string]int }

// instructions is how many of a pattern cost one, for ten bytes of text.
const instructions = MaxMatching / MaxCost / 10

func (p prices) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := uint64(1)
	switch {
	case (function == operators.Equals || function == operators.NotEquals) && len(args) == 2:
		cost += comparing(args[0], args[1])
	case function == operators.In && len(args) == 2:
		cost += looking(args[0], args[1])
	case function == overloads.Matches && len(args) == 2:
		cost += (1 + text(args[0])) * (1 + max(10*text(args[1])/4, p.size(args[1])/instructions))
	default:
		for _, a := range args {
			cost += text(a)
		}
		cost += text(result)
	}
	return &cost
}

// size is that of a pattern of the expression.
func (p prices) size(v ref.Val) uint64 {
	pattern, _ := v.(types.String)
	return uint64(p.sizes[string(pattern)])
}

// text is the price of a text or bytes, 0 for everything else.
func text(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)+9) / 10
	case types.Bytes:
		return uint64(len(v)+9) / 10
	}
	return 0
}

// comparing is the price of a == b, at any depth.
func comparing(a, b ref.Val) uint64 {
	cost := uint64(1)
	switch a := a.(type) {
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		if !ok || a.Size() != b.Size() {
			return cost
		}
		for it := a.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			other, ok := b.Find(key)
			if !ok {
				break
			}
			mine, _ := a.Find(key)
			cost += text(key) + comparing(mine, other)
		}
	case traits.Lister:
		b, ok := b.(traits.Lister)
		if !ok || a.Size() != b.Size() {
			return cost
		}
		for x, y := a.Iterator(), b.Iterator(); x.HasNext() == types.True && y.HasNext() == types.True; {
			cost += comparing(x.Next(), y.Next())
		}
	default:
		cost += min(text(a), text(b))
	}
	return cost
}

// looking is the price of v in where.
func looking(v, where ref.Val) uint64 {
	list, ok := where.(traits.Lister)
	if !ok {
		return text(v)
	}
	cost := uint64(0)
	for it := list.Iterator(); it.HasNext() == types.True; {
		cost += comparing(v, it.Next())
	}
	return cost
}
