package archtest

import (
	"cmp"
	"go/ast"
	"go/types"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	load "golang.org/x/tools/go/packages"
)

// defaultMaxUp is the maximum of arrows that run back up in a package without a number in maxUp.
const defaultMaxUp = 5

// maxUp are the packages with more arrows back up than defaultMaxUp. A number is only ever lowered.
var maxUp = map[string]int{}

// TestFileOrder checks that the files of a package have an order in which, with few exceptions, each uses only names of
// files below it: a reader can read them from the bottom to the top. An arrow is a file that uses a package-level name,
// a method or a field that another file declares. Of all orders, the one with the fewest arrows back up counts.
func TestFileOrder(t *testing.T) {
	unknown := maps.Clone(maxUp)
	for _, p := range arrowsOfPackages(t) {
		order := p.order()
		up := p.back(order)
		limit, listed := maxUp[p.name]
		if !listed {
			limit = defaultMaxUp
		}
		if len(up) > limit {
			t.Errorf("%s: %d arrows run back up, more than %d:\n  %s\n  the order from the bottom is %s", p.name, len(up), limit,
				strings.Join(up, "\n  "), strings.Join(p.names(order), " "))
		}
		if listed && len(up) < limit {
			t.Logf("%s: %d arrows run back up; lower its number in maxUp, or remove it at %d", p.name, len(up), defaultMaxUp)
		}
		delete(unknown, p.name)
	}
	for name := range unknown {
		t.Errorf("maxUp names %s, which is not a package", name)
	}
}

// fileArrows are the arrows between the files of one package, which are numbered.
type fileArrows struct {
	name  string
	files []string
	uses  [][]bool // uses[a][b]: file a uses a name of file b
}

// arrowsOfPackages reads the packages of the rules with their types.
func arrowsOfPackages(t *testing.T) (list []fileArrows) {
	t.Helper()
	const module = "github.com/openberth/berth/"
	found, err := load.Load(&load.Config{Dir: "../..", Mode: load.NeedName | load.NeedFiles |
		load.NeedImports | load.NeedTypes | load.NeedSyntax | load.NeedTypesInfo}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		if len(p.Errors) > 0 {
			t.Fatal(p.Errors)
		}
		if len(p.Syntax) > 1 {
			list = append(list, arrowsOf(strings.TrimPrefix(p.PkgPath, module), p))
		}
	}
	if len(list) < 50 {
		t.Fatalf("only %d packages were read", len(list))
	}
	return list
}

// arrowsOf returns the arrows of a package.
func arrowsOf(name string, p *load.Package) fileArrows {
	out := fileArrows{name: name}
	number := map[string]int{}
	for _, file := range p.Syntax {
		path := p.Fset.Position(file.Package).Filename
		number[path] = len(out.files)
		out.files = append(out.files, filepath.Base(path))
	}
	out.uses = make([][]bool, len(out.files))
	for i, file := range p.Syntax {
		out.uses[i] = make([]bool, len(out.files))
		ast.Inspect(file, func(n ast.Node) bool {
			ident, is := n.(*ast.Ident)
			if !is {
				return true
			}
			used := p.TypesInfo.Uses[ident]
			if used == nil || used.Pkg() != p.Types || !declared(used) {
				return true
			}
			if at, known := number[p.Fset.Position(used.Pos()).Filename]; known && at != i {
				out.uses[i][at] = true
			}
			return true
		})
	}
	return out
}

// declared reports whether an object is declared at the level of its package, or is a method or a field.
func declared(o types.Object) bool {
	if v, is := o.(*types.Var); is && v.IsField() {
		return true
	}
	if f, is := o.(*types.Func); is && f.Signature().Recv() != nil {
		return true
	}
	return o.Parent() == o.Pkg().Scope()
}

// names returns the names of files in an order.
func (p fileArrows) names(order []int) (list []string) {
	for _, i := range order {
		list = append(list, p.files[i])
	}
	return list
}

// back lists the arrows that run back up in an order of the files, from the bottom to the top.
func (p fileArrows) back(order []int) (list []string) {
	for at, low := range order {
		for _, high := range order[at+1:] {
			if p.uses[low][high] {
				list = append(list, p.files[low]+" uses "+p.files[high])
			}
		}
	}
	return list
}

// order returns an order from the bottom to the top with few arrows back up. Circles are ordered one by one: exactly up
// to exactFiles, larger ones by moving single files as long as that helps.
func (p fileArrows) order() (order []int) {
	for _, circle := range p.circles() {
		if len(circle) <= exactFiles {
			order = append(order, p.exact(circle)...)
		} else {
			order = append(order, p.improved(circle)...)
		}
	}
	return order
}

// exactFiles is the largest circle whose orders are all compared.
const exactFiles = 14

// circles returns the sets of files that use each other, those that use the others last (Tarjan's algorithm).
func (p fileArrows) circles() (list [][]int) {
	index, low, on := map[int]int{}, map[int]int{}, map[int]bool{}
	var stack []int
	var visit func(v int)
	visit = func(v int) {
		index[v], low[v], on[v] = len(index), len(index), true
		stack = append(stack, v)
		for w := range p.files {
			if !p.uses[v][w] {
				continue
			}
			if _, seen := index[w]; !seen {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		at := slices.Index(stack, v)
		circle := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, w := range circle {
			on[w] = false
		}
		slices.Sort(circle)
		list = append(list, circle)
	}
	for v := range p.files {
		if _, seen := index[v]; !seen {
			visit(v)
		}
	}
	return list
}

// exact returns the best order of a circle: least[set] is the smallest number of arrows back up with these files at the
// bottom.
func (p fileArrows) exact(circle []int) []int {
	n := len(circle)
	least, last := make([]int, 1<<n), make([]int, 1<<n)
	for set := 1; set < 1<<n; set++ {
		least[set] = 1 << 30
		for rest := set; rest != 0; rest &= rest - 1 {
			top := bits.TrailingZeros(uint(rest))
			below := set &^ (1 << top)
			up := least[below]
			for i := range n {
				if below&(1<<i) != 0 && p.uses[circle[i]][circle[top]] {
					up++
				}
			}
			if up < least[set] {
				least[set], last[set] = up, top
			}
		}
	}
	var order []int
	for set := 1<<n - 1; set != 0; set &^= 1 << last[set] {
		order = append(order, circle[last[set]])
	}
	slices.Reverse(order)
	return order
}

// improved returns a good order of a large circle.
func (p fileArrows) improved(circle []int) []int {
	users := map[int]int{}
	for _, a := range circle {
		for _, b := range circle {
			if p.uses[a][b] {
				users[b]++
				users[a]--
			}
		}
	}
	order := slices.Clone(circle)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(users[b], users[a]) })
	for best := len(p.back(order)); ; {
		better := false
		for from := range order {
			for to := range order {
				moved := slices.Delete(slices.Clone(order), from, from+1)
				moved = slices.Insert(moved, to, order[from])
				if up := len(p.back(moved)); up < best {
					order, best, better = moved, up, true
				}
			}
		}
		if !better {
			return order
		}
	}
}
