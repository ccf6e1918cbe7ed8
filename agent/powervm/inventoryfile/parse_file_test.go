package inventoryfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/resource"
)

// parse returns the paragraphs of a file without problems.
func parse(t *testing.T, text string) File {
	t.Helper()
	f, problems := Parse("inv.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatalf("%s\nhas the problems %v", text, problems)
	}
	return f
}

// wrong expects exactly these problems, each "line:column: start of the sentence … rest of it".
func wrong(t *testing.T, text string, want ...string) {
	t.Helper()
	_, problems := Parse("inv.yaml", []byte(text))
	var got []string
	for _, p := range problems {
		got = append(got, strings.TrimPrefix(p.String(), "inv.yaml:"))
	}
	fits := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		place, part, _ := strings.Cut(want[i], " ")
		fits = fits && strings.HasPrefix(got[i], place+": ") && strings.Contains(got[i], part)
	}
	if !fits {
		t.Errorf("%s\nproblems:\n  %s\nwant:\n  %s", text, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

const header = "a:\n  identification: {vendor_id: 10DE}\n"

func TestParagraphsLoadInOrder_R5_R7(t *testing.T) {
	f := parse(t, "GPUs, fast:\n  identification:\n    vendor_id: 10DE\n    drc_name: U78CB.001.WZS06S2-P1-C7\n"+
		"  resource_class: CUSTOM_GPU\n  traits: [CUSTOM_B, CUSTOM_A, HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_0]\n"+
		"other:\n  identification: {drc_index: 1C0FFEE1}\n")
	if len(f.Paragraphs) != 2 || f.Paragraphs[0].Name != "GPUs, fast" || f.Paragraphs[1].Name != "other" {
		t.Fatalf("%+v", f.Paragraphs)
	}
	p := f.Paragraphs[0]
	if p.Class != "CUSTOM_GPU" || p.At.String() != "inv.yaml:1:1" || !slices.Equal(p.Traits,
		[]resource.Trait{"CUSTOM_A", "CUSTOM_B", "HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_0"}) {
		t.Errorf("%+v", p)
	}
	if got := f.Paragraphs[1]; got.ClassOr(DefaultClass) != "CUSTOM_IOSLOT" || got.Deny || got.At.Line != 7 { // R18
		t.Errorf("%+v", got)
	}
}

func TestEmptyFilesAllowNothing_C20(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# only a comment\n", "---\n", "~\n", "{}\n"} {
		if f := parse(t, text); len(f.Paragraphs) != 0 {
			t.Errorf("%q: %+v", text, f.Paragraphs)
		}
	}
}

// YAML makes numbers and booleans of these values; they count as they are written.
func TestValuesAreTheTextThatIsWritten_C15(t *testing.T) {
	for _, value := range []string{"1014", "0020", "1E10", "0E10", "0777", "1_0E", "0b01"} {
		for _, form := range []string{"%s", "'%s'", "\"%s\"", "&x %s"} {
			text := fmt.Sprintf("a:\n  identification:\n    vendor_id: "+form+"\n", value)
			f, problems := Parse("inv.yaml", []byte(text))
			if strings.Trim(value, "0123456789ABCDEF") != "" {
				if len(problems) != 1 || !strings.Contains(problems[0].Sentence, fmt.Sprintf("%q", value)) {
					t.Errorf("%s: %v", text, problems)
				}
				continue
			}
			if len(problems) > 0 || f.Paragraphs[0].Conditions[0].Value != value {
				t.Errorf("%s: %+v %v", text, f.Paragraphs, problems)
			}
		}
	}
	for _, value := range []string{"NO", "yes", "on", "12", "1.5", "0x10", "2026-11-22"} {
		f := parse(t, "a:\n  identification: {drc_name: "+value+"}\n")
		if got := f.Paragraphs[0].Conditions[0].Value; got != value {
			t.Errorf("drc_name %s is %q", value, got)
		}
	}
	f := parse(t, "a:\n  identification: &id\n    drc_index: 21010010\nb:\n  identification: *id\n")
	if len(f.Paragraphs) != 2 || f.Paragraphs[1].Conditions[0].Value != "21010010" {
		t.Errorf("%+v", f.Paragraphs)
	}
}

// The digits are those of [0-9A-F]; the \X of the specification is not a class of regular expressions.
func TestHexadecimalValues_R9_R10_R11_C29(t *testing.T) {
	for key, good := range map[string]string{"vendor_id": "10DE", "device_id": "1DB1", "subsys_vendor_id": "1014",
		"subsys_device_id": "04B2", "class": "0302", "revision_id": "A1", "drc_index": "1C0FFEE1"} {
		parse(t, "a:\n  identification: {"+key+": "+good+"}\n")
		bad := []string{strings.ToLower(good) + "a", "0x" + good, good[1:], good + "0", "G" + good[1:], "'" + good + " '"}
		if low := strings.ToLower(good); low != good {
			bad = append(bad, low)
		}
		for _, value := range bad {
			wrong(t, "a:\n  identification:\n    "+key+": "+value+"\n", fmt.Sprintf("3:%d %s is", 7+len(key), key))
		}
	}
	wrong(t, "a:\n  identification: {vendor_id: 0x10de}\n", "2:31 hexadecimal digits, here 10DE")
}

// A class has the base class and the subclass. The message about one with the programming interface has the part to
// write.
func TestClassIsBaseClassAndSubclass_C17(t *testing.T) {
	wrong(t, "a:\n  identification: {class: '030200'}\n", "2:27 the base class and the subclass, here 0302")
	wrong(t, "a:\n  identification: {class: 0x0302}\n", "2:27 here 0302")
	wrong(t, "a:\n  identification: {class: '03'}\n", "2:27 write 4 upper-case hexadecimal digits")
	display := gpu(2, "B")
	display.Class = ioslot.Known(0x0300)
	for class, want := range map[string]string{"'0302'": "00000001", "'0300'": "00000002", "03??": "00000001 00000002"} {
		got := allowed(t, rules(t, "a:\n  identification: {class: "+class+"}\n"), gpu(1, "A"), display)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", class, got)
		}
	}
}

// A value that other programs read as a number or a boolean is valid, and a warning names it.
func TestValuesWithoutQuotesAreWarnedOf_C15(t *testing.T) {
	f := parse(t, "a:\n  identification:\n    vendor_id: 1014\n    device_id: '0020'\n    class: 10DE\n"+
		"b:\n  identification: {drc_name: NO}\n")
	var got []string
	for _, w := range f.Warnings {
		got = append(got, w.String())
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "inv.yaml:3:16: ") || !strings.Contains(got[0], "write '1014'") ||
		!strings.HasPrefix(got[1], "inv.yaml:7:30: ") || !strings.Contains(got[1], "write 'NO'") {
		t.Errorf("%q", got)
	}
	if layers := Merge(f, f); len(layers.Warnings) != 4 {
		t.Errorf("%v", layers.Warnings)
	}
}

func TestDRCName_R12(t *testing.T) {
	wrong(t, "a:\n  identification: {drc_name: ''}\n", "2:30 location code")
	wrong(t, "a:\n  identification:\n    drc_name:\n", "3:14 drc_name is empty")
	wrong(t, "a:\n  identification: {drc_name: [x]}\n", "2:30 drc_name is a list")
	wrong(t, "a:\n  identification: {drc_name: !!str x}\n", "2:30 drc_name is")
}

func TestShapeOfTheFile_R5_R6_R7_R8(t *testing.T) {
	wrong(t, "- a\n- b\n", "1:1 the file is a list")
	wrong(t, "just text\n", `1:1 the file is the text "just text"`)
	wrong(t, header+header, `3:1 the file has the key "a" twice, first in line 1`)
	wrong(t, "a:\n  identification: {vendor_id: 10DE, vendor_id: 1014}\n", `2:37 has the key "vendor_id" twice`)
	wrong(t, "a:\n", "1:3 paragraph \"a\" is empty")
	wrong(t, "a: {resource_class: CUSTOM_X}\n", "1:1 has no identification")
	wrong(t, "a:\n  identification:\n", "2:18 is empty")
	wrong(t, "a:\n  identification: {}\n", "2:19 is empty")
	wrong(t, header+"  resource_clas: CUSTOM_X\n", `3:3 unknown key "resource_clas"; write resource_class`)
	wrong(t, "a:\n  identification: {product_id: 10DE}\n", `2:20 unknown key "product_id"`)
	wrong(t, "? [x]\n: y\n", "1:3 a key that is not text")
	wrong(t, "a: &a\n  identification: {vendor_id: 10DE}\nb:\n  <<: *a\n", "3:1 has no identification",
		"4:3 a key that is not text")
	wrong(t, "'': {identification: {vendor_id: 10DE}}\n", "1:1 empty name")
	wrong(t, header+"---\n"+header, "3:1 second document")
}

func TestSyntaxErrorsHaveAPosition(t *testing.T) {
	for text, line := range map[string]int{"a: [\n": 0, "a:\n  b: 1\n c: 2\n": 3, "a: \"x\n": 0, "\ta: 1\n": 1} {
		_, problems := Parse("inv.yaml", []byte(text))
		if len(problems) != 1 || !strings.Contains(problems[0].Sentence, "not valid YAML") ||
			line > 0 && problems[0].At.Line != line || problems[0].At.Line == 0 {
			t.Errorf("%q: %v", text, problems)
		}
	}
	if _, problems := Parse("inv.yaml", []byte(strings.Repeat("#", maxBytes+1))); len(problems) != 1 {
		t.Errorf("a long file: %v", problems)
	}
}

func TestResourceClass_R18_C13(t *testing.T) {
	for _, class := range []string{"CUSTOM_X", "PGPU", "VGPU", "FPGA", "PCI_DEVICE",
		"CUSTOM_" + strings.Repeat("A", 248)} {
		parse(t, header+"  resource_class: "+class+"\n")
	}
	for _, class := range []string{"VCPU", "MEMORY_MB", "gpu", "CUSTOM_", "CUSTOM_x", "17", "[CUSTOM_X]", "~",
		"CUSTOM_" + strings.Repeat("A", 249)} {
		wrong(t, header+"  resource_class: "+class+"\n", "3:19 resource_class is")
	}
}

func TestTraits_R19_R20_C6(t *testing.T) {
	for _, traits := range []string{"[]", "CUSTOM_A", "{CUSTOM_A: 1}"} {
		wrong(t, header+"  traits: "+traits+"\n", "3:11 with at least one trait")
	}
	wrong(t, header+"  traits:\n", "3:10 with at least one trait")
	wrong(t, header+"  traits: [CUSTOM_A, ~, [x], {y: z}]\n", "3:22 an item that is", "3:25 an item that is a list",
		"3:30 an item that is a mapping")
	wrong(t, header+"  traits:\n  - CUSTOM_\n  - CUSTOM_a\n  - HW_GPU_CUDA\n  - CUSTOM_"+strings.Repeat("A", 249)+"\n",
		"4:5 not valid", "5:5 not valid", "6:5 not a standard trait", "7:5 not valid")
}

// The agent alone writes the traits that begin like generated ones, whichever device they describe.
func TestGeneratedTraitsAreRefused_R21_C16(t *testing.T) {
	for _, k := range ioslot.Keys() {
		wrong(t, header+"  traits: ["+ioslot.TraitPrefix(k)+"FFFF]\n", "3:12 is generated by the agent")
	}
	parse(t, header+"  traits: [CUSTOM_POWERVM_IOSLOT_FOO]\n")
	wrong(t, header+"  traits: [COMPUTE_MANAGED_PCI_DEVICE]\n", "3:12 marks the PCI devices")
}

func TestAllow_G1(t *testing.T) {
	for text, deny := range map[string]bool{"true": false, "True": false, "false": true, "FALSE": true} {
		if f := parse(t, header+"  allow: "+text+"\n"); f.Paragraphs[0].Deny != deny {
			t.Errorf("%s: %+v", text, f.Paragraphs)
		}
	}
	for _, text := range []string{"NO", "no", "\"false\"", "'true'", "0", "~", "[false]", "off"} {
		wrong(t, header+"  allow: "+text+"\n", "3:10 write true or false, without quotes")
	}
	wrong(t, header+"  allow: false\n  traits: [CUSTOM_A]\n  resource_class: CUSTOM_X\n",
		"4:3 allow: false and traits", "5:3 allow: false and resource_class")
}

func TestAllErrorsAreReportedAtOnce(t *testing.T) {
	wrong(t, "a:\n  identification: {vendor_id: 10de}\n  resource_class: gpu\n  traits: [foo]\nb: 1\nc:\n  allow: maybe\n",
		"2:31 vendor_id", "3:19 resource_class", "4:12 foo", "5:4 paragraph \"b\"", "6:1 no identification", "7:10 allow is")
}

// FuzzParse checks that every input has a result, that problems have a place in the file, and that a file without
// problems has only valid paragraphs.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", header, header + "  traits: [CUSTOM_A]\n", "a: &x {identification: *x}\n", "a: [\n",
		header + "  allow: false\n---\n", "a:\n  identification: {drc_name: 'U*-P1-?', class: 03??}\n", "\xff\xfe", "a: *b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, problems := Parse("f", text)
		for _, p := range problems {
			if p.Sentence == "" || p.At.Line < 0 || p.At.Line > strings.Count(string(text), "\n")+
				strings.Count(string(text), "\r")+strings.Count(string(text), "\u0085")+
				strings.Count(string(text), "\u2028")+strings.Count(string(text), "\u2029")+2 {
				t.Errorf("%q: %+v", text, p)
			}
		}
		if len(problems) > 0 {
			return
		}
		for _, p := range file.Paragraphs {
			if len(p.Conditions) == 0 || p.At.Line < 1 || p.Deny && (p.Class != "" || p.Traits != nil) {
				t.Errorf("%q: %+v", text, p)
			}
			for _, c := range p.Conditions {
				if checkValue(c.Key, c.Value) != "" {
					t.Errorf("%q: %+v", text, c)
				}
			}
			for _, trait := range p.Traits {
				if checkTrait(string(trait)) != "" {
					t.Errorf("%q: %s", text, trait)
				}
			}
		}
	})
}
