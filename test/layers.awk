# SPDX-License-Identifier: BSD-3-Clause
# The rules for C and CUDA sources, see layers.sh. Prints "FILE:LINE: what is wrong" for each offence.

BEGIN {
    # which folders a folder of the library may include, besides itself and include/ (what is installed)
    below["base"] = ""
    below["topo"] = "base"
    below["cuda"] = "topo base"
    below["ucx"] = "topo base"
    below["coll"] = "cuda ucx topo base"
    below["pt2pt"] = "cuda ucx topo base"
    below["mpi"] = "coll pt2pt cuda ucx topo base"
    below["front"] = "base"

    before = "(^|[^A-Za-z0-9_.>])"
    printing = before "(v|f|vf|d)?printf *\\(|" before "(f|f?put|put|p)(s|error|char|c) *\\("
    ending = before "(exit|_exit|_Exit|quick_exit|abort|assert) *\\("
}

function offence(text)
{
    printf "%s:%d: %s\n", path, FNR, text
}

# The line without comments, and with the text of strings left out.
function code_of(line,    out, at)
{
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (!at)
                return out
            line = substr(line, at + 2)
            in_comment = 0
        } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/)) {
            out = out substr(line, 1, RSTART - 1)
            at = substr(line, RSTART, 2)
            if (at == "//")
                return out
            if (at == "/*")
                in_comment = 1
            else
                out = out "\"\""
            line = substr(line, RSTART + RLENGTH)
        } else {
            return out line
        }
    }
    return out
}

function end_file()
{
    if (lines > 600)
        printf "%s:601: a file of %d lines, over 600\n", path, lines
}

FNR == 1 {
    end_file()
    path = FILENAME
    sub(/^\.\//, "", path)
    folder = path
    sub(/\/.*/, "", folder)
    in_library = folder in below
    in_comment = 0
    start = 0
}

{
    lines = FNR
    code = code_of($0)
}

/^[ \t]*#[ \t]*include/ {
    name = $0
    sub(/^[^"<]*["<]/, "", name)
    sub(/[">].*/, "", name)
    if (folder == "mpi" && name == "front/front.h") # what the front hands to its engines
        next
    if (name ~ /^(mpi|mpi_.*|mpi-ext)\.h$/ && folder !~ /^(mpi|test|examples|tools)$/)
        offence("<" name "> is for mpi/ alone")
    if (name ~ /^(cuda|cuda_.*|nvml|cudaTypedefs)\.h$/ && folder !~ /^(cuda|sim|test|examples)$/)
        offence("<" name "> is for cuda/ alone")
    if (name ~ /^uc[pst]\// && folder != "ucx")
        offence("<" name "> is for ucx/ alone")
    other = name
    sub(/\/.*/, "", other)
    if (in_library && name ~ /\// && name !~ /^(sys|asm|linux|netinet|arpa)\// && /"/ && other != folder && other != "include" &&
        index(" " below[folder] " ", " " other " ") == 0)
        offence(folder "/ may not include " other "/")
}

code ~ before "(secure_)?getenv *\\(" && folder ~ /^(base|topo|cuda|ucx|coll|pt2pt|mpi)$/ && path != "base/conf.c" {
    offence("getenv is for base/conf.c alone")
}

code ~ printing && in_library && path != "base/log.c" {
    offence("printing is for base/log.c alone")
}

code ~ ending && in_library {
    offence("the library may not end the application")
}

/^\{/ { start = FNR }
/^\}/ {
    if (start && FNR - start > 80)
        offence("a function of " FNR - start " lines, over 80")
    start = 0
}

END { end_file() }
