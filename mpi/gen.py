#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write what follows from calls.txt:

gen.py slots CALLS               front/slots.def: SLOT(index, name, what if the host lacks it, see front/slots.h)
gen.py ids CALLS                 call_ids.h: the ids of struct shunt_call, and which of them are forms of another
gen.py host CALLS MPI.I          host_table.h: the host's functions
gen.py shims CALLS MPI.I SHIM    shims.c: a check of each row, a shim of each function, and their tables

MPI.I is the MPI's preprocessed mpi.h. A function is left out only if one of its types is not in there: a host may have
functions that the header of an older release does not declare.
"""
import re
import sys
import zlib
from collections import namedtuple

# An argument: its declarations, what of struct shunt_call it fills (or None), its kind and name
Arg = namedtuple("Arg", "small large older field kind name")
# A function. family: the id of its blocking form, or its own. newer: not every host has it. slot: index of the MPI_ slot,
# that of PMPI_ follows; -1: none
Call = namedtuple("Call", "name id family cls args large newer slot")


def read_arg(text, kinds):
    word, name = re.fullmatch(r"(.*?)\s*\b(\w+)(?:\[\])*", text.strip()).groups()
    if word not in kinds:
        return Arg(text.strip(), None, text.strip(), None, None, name)
    small, large, field = kinds[word]
    now, _, older = small.partition(" | ")
    return Arg(now.format(name), None if large == "-" else large.format(name), (older or now).format(name),
               None if field == "-" else field.replace("{}", name), word, name)


def expand(name, forms, args, kinds):
    """Yield form, name, id, arguments of each form of a row; + follows a form that is newer."""
    plain = [a for a in args if a.kind not in ("status", "rstatus")]
    request, info = [read_arg("request request", kinds)], [read_arg("info info", kinds)]
    prefix, first, rest = re.fullmatch(r"(File_)?(\w)(\w+)", name).groups()
    for form, plus in re.findall(r"(\w)(\+?)", forms):
        form += plus or "+" * (form in "px")
        if form[0] == "b":
            yield form, name, name, args
        elif form[0] in "ir":
            new = f"File_{form[0]}" if prefix else form[0].upper()
            yield form, new + first.lower() + rest, new + first.lower() + rest, plain + request
        else:
            full = ("MPIX_" if form[0] == "x" else "") + f"{name}_init"
            yield form, full, f"{name}_init", plain + ([] if form == "s" else info) + request


# What other forms than the blocking one are of
OTHER_FORMS = {"stage": "icoll", "coll": "icoll", "move": "issue", "receive": "ireceive", "file": "issue", "depth": "issue"}
STAGED = {"stage", "move", "receive", "probe", "ireceive", "pack", "file", "begin", "end", "icoll", "issue", "access", "lend"}


def read_calls(path):
    """Every function of calls.txt."""
    slot, kinds = 0, {}
    for line in open(path):
        if not line.strip() or line.startswith("#"):
            continue
        name, forms, cls, args = line.strip().split(None, 3)
        if name == "kind":
            kinds[forms] = re.split(r"\s{2,}", line.strip().split(None, 2)[2])
            continue
        args = [] if args == "-" else [read_arg(a, kinds) for a in args.split(",")]
        for form, full, call_id, form_args in expand(name, forms, args, kinds):
            for large in (False, True) if form != "x+" and any(a.large for a in args) else (False,):
                yield Call(full + "_c" * large, call_id, name if "b" in forms else call_id,
                           cls if form[0] == "b" else OTHER_FORMS.get(cls, cls), form_args, large, large or "+" in form,
                           -1 if cls == "host" else slot)
                slot += 0 if cls == "host" else 2


def symbols(call):
    full = call.name if call.name.startswith("MPIX_") else "MPI_" + call.name
    return full, "P" + full


def declare(call, older=False):
    """The parameters in C."""
    return ", ".join(a.large if call.large and a.large else a.older if older else a.small for a in call.args) or "void"


# What fills a struct shunt_wait; some of it a struct shunt_call, too
WAIT_KINDS = {"nreq", "request", "req", "creqs", "status", "flag", "index", "indices", "part", "part1", "part2", "nparts",
              "parts"}
BOTH_KINDS = {"request", "req"}


def rows(call):
    """The declaration of struct shunt_rows, of calls that have arrays."""
    text = [a.field[4:] for a in call.args if a.field and a.field.startswith("rows.")]
    return f"    const struct shunt_rows rows = {{{', '.join(text)}}};\n" if text else ""


def does_fill(call, arg):
    if not arg.field or arg.field.startswith("rows."):
        return False
    return arg.kind in WAIT_KINDS if call.cls == "done" else arg.kind not in WAIT_KINDS or arg.kind in BOTH_KINDS


def fields(call):
    text = [a.field for a in call.args if does_fill(call, a)]
    if call.cls == "done" and not any(a.kind == "nreq" for a in call.args):
        text.append(".n_requests = 1")
    if call.large:
        text.append(".large = true")
    if rows(call):
        text.append(".rows = &rows")
    return "".join(", " + t for t in text)


def host_args(call):
    """What the host's function is called with: some of it the hook may have put into `call`."""
    replaced = {"status": "call.statuses"} if call.cls == "done" else {}
    if call.cls in STAGED:
        replaced = {"cbuf": "call.sendbuf", "buf": "call.recvbuf", "rstatus": "call.status", "type": "call.datatype",
                    "rtype": "call.recvtype", "op": "call.op", "compare": "call.compare",
                    "sdispls": "call.rows->senddispls", "sadispls": "call.rows->senddispls",
                    "rdispls": "call.rows->recvdispls", "radispls": "call.rows->recvdispls",
                    "stypes": "call.rows->sendtypes", "rtypes": "call.rows->recvtypes"}
    if call.cls == "probe":
        replaced = {"rstatus": "call.status"}
    if call.cls in {"move", "receive", "issue", "ireceive"}:
        replaced["count"] = "call.count"
        if call.cls in {"receive", "ireceive"}:
            replaced["rcount"] = "call.recvcount"
    return ", ".join(replaced.get(a.kind, a.name) for a in call.args)


def lack(call):
    """What it means that a host lacks the function."""
    if call.cls == "answer":
        return "SHOWN_WRITES_NO" if call.args else "SHOWN_MEANS_NO"
    return "MEANS_NO" if call.cls == "query" else "MAY_LACK" if call.newer else "ALL_HAVE"


def call_arg(arg, large):
    """The argument as struct shunt_call has it; small counts are int there, too."""
    if not arg.field:
        return "MPI_INFO_NULL"
    field = "call->" + arg.field.split(" = ")[0].lstrip(".").replace("rows.", "rows->")
    return f"(int){field}" if arg.small.startswith("int ") and arg.large and not large else field


def write_begin(calls):
    """Nonblocking collectives, from what a struct shunt_call keeps of them."""
    print("int shunt_host_begin(const struct shunt_call *call)\n{\n    switch (call->id * 2 + call->large) {")
    for call in [c for c in calls if c.cls == "icoll" and c.id[0] == "I" and any(a.kind in ("buf", "cbuf") for a in c.args)]:
        args = ", ".join(call_arg(a, call.large) for a in call.args)
        print(f"    case SHUNT_CALL_{call.id} * 2 + {int(call.large)}: return shunt_host.{call.name}({args});")
    print("    default: return MPI_ERR_OTHER;\n    }\n}\n")


# Calls that wait and have a form that does not: as loops while there are flights. Of the others in the same way
POLLED = {"Send", "Ssend", "Rsend", "Recv", "Mrecv"}
POLLED_OTHERS = {
    "Sendrecv": """MPI_Request requests[2];
            rc = shunt_host.Irecv{c}(call.recvbuf, call.recvcount, call.recvtype, source, recvtag, comm, &requests[0]);
            if (rc == MPI_SUCCESS)
                rc = shunt_host.Isend{c}(call.sendbuf, call.count, call.datatype, dest, sendtag, comm, &requests[1]);
            if (rc == MPI_SUCCESS) {{
                rc = shunt_poll_request(&requests[0], call.status);
                int sent = shunt_poll_request(&requests[1], MPI_STATUS_IGNORE);
                rc = rc == MPI_SUCCESS ? sent : rc;
            }}""",
    "Probe": """int flag = 0;
            unsigned spins = 0;
            while ((rc = shunt_host.Iprobe(source, tag, comm, &flag, call.status)) == MPI_SUCCESS && !flag)
                shunt_poll_turn(&spins);""",
    "Mprobe": """int flag = 0;
            unsigned spins = 0;
            while ((rc = shunt_host.Improbe(source, tag, comm, &flag, message, call.status)) == MPI_SUCCESS && !flag)
                shunt_poll_turn(&spins);"""}


def poll(call):
    """The call as a loop, with an else before what follows."""
    name, c = call.family, "_c" * call.large
    if call.id != name or name not in POLLED and name not in POLLED_OTHERS:
        return ""
    body = POLLED_OTHERS[name].format(c=c) if name in POLLED_OTHERS else None
    if not body:
        args = host_args(call._replace(args=[a for a in call.args if a.kind != "rstatus"]))
        status = "call.status" if any(a.kind == "rstatus" for a in call.args) else "MPI_STATUS_IGNORE"
        body = f"""MPI_Request request;
            rc = shunt_host.I{name.lower()}{c}({args}, &request);
            if (rc == MPI_SUCCESS)
                rc = shunt_poll_request(&request, {status});"""
    return f"        if (FLYING) {{\n            {body}\n        }} else\n    "


def write_slots(calls):
    for call in [c for c in calls if c.slot >= 0]:
        for i, symbol in enumerate(symbols(call)):
            print(f"SLOT({call.slot + i}, {symbol}, SHUNT_{lack(call)})")


def write_ids(calls, digest):
    ids = dict.fromkeys(c.id for c in calls if c.cls != "host")
    print("#pragma once\n\nenum shunt_call_id {\n" + "".join(f"    SHUNT_CALL_{i},\n" for i in ids) + "    SHUNT_NCALLS\n};\n")
    forms = dict.fromkeys((c.id, c.family) for c in calls if c.cls != "host" and c.id != c.family)
    print("/* Initialises an array: of each form that is not the blocking one, the id of that. */\n#define SHUNT_CALL_FAMILIES \\\n" +
          " \\\n".join(f"    [SHUNT_CALL_{i}] = SHUNT_CALL_{family}," for i, family in forms) + "\n")
    for what, macro, has in (("are started by Start", "PERSISTENT", lambda c: c.id.endswith("_init")),
                             ("are of a file", "FILE", lambda c: any(a.kind == "file" for a in c.args)),
                             ("have struct shunt_rows", "ROWS", rows),
                             ("have a second datatype", "TWO_TYPES", lambda c: any(a.kind == "rtype" for a in c.args))):
        print(f"/* Initialises an array of bools: which {what}. */\n#define SHUNT_CALL_{macro} \\\n" +
              " \\\n".join(f"    [SHUNT_CALL_{i}] = true," for i in dict.fromkeys(c.id for c in calls if c.cls != "host" and has(c))) + "\n")
    print(f"#define SHUNT_NSLOTS {2 + max(c.slot for c in calls)}")
    print(f"#define SHUNT_CALLS_DIGEST {digest:#x}u /* of calls.txt: slots are numbered alike */")


def write_host(calls):
    members = "".join(f"    int (*{c.name})({declare(c)});\n" for c in calls)
    print("#pragma once\n\nstruct shunt_host_table {\n" + members + "};")


def write_shims(calls, functions, template):
    print('#include "mpi/shim.h"\n\n#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n')
    for call in calls:
        for symbol in [s for s in reversed(symbols(call)) if s in functions][:1]:
            types = dict.fromkeys((declare(call), declare(call, older=True)))
            same = " || ".join(f"__builtin_types_compatible_p(__typeof__({symbol}), int({t}))" for t in types)
            print(f'_Static_assert({same}, "calls.txt: {call.name}");')
    shims = [(call, call.slot + i, s) for call in calls if call.cls not in ("pass", "query", "answer", "host")
             for i, s in enumerate(symbols(call))]
    for call, slot, symbol in shims:
        values = {"SYMBOL": symbol, "PARAMS": declare(call), "ARGS": ", ".join(a.name for a in call.args),
                  "HOST_ARGS": host_args(call), "POLL": poll(call), "SLOT": str(slot), "ID": call.id, "ROWS": rows(call), "FIELDS": fields(call),
                  "CLASS": call.cls, "STRUCT": "shunt_wait" if call.cls == "done" else "shunt_call"}
        print(re.sub(r"@(\w+)@", lambda m: values[m[1]], template))
    write_begin(calls)
    print("const struct shunt_shim shunt_shims[] = {\n" +
          "".join(f"    {{{slot}, (void *)shim_{symbol}, false}},\n" for _, slot, symbol in shims) +
          "".join(f"    {{{c.slot + i}, (void *)shunt_answer_{c.name}, true}},\n" for c in calls if c.cls == "answer"
                  for i in (0, 1)) + "    {-1, 0, false},\n};\n")
    print("const struct shunt_host_row shunt_host_rows[] = {\n" + "".join(
        f'    {{offsetof(struct shunt_host_table, {c.name}), {c.slot + (c.slot >= 0)}, "{symbols(c)[1]}"}},\n'
        for c in calls) + "    {0, -1, 0},\n};")


def main(what, path, header=None, template=None):
    calls = list(read_calls(path))
    print("/* SPDX-License-Identifier: BSD-3-Clause */\n/* Written by mpi/gen.py from mpi/calls.txt: edit those. */")
    if header:
        text = re.sub(r'"[^"]*"', '""', open(header).read())
        words, functions = set(re.findall(r"\w+", text)), set(re.findall(r"(\w+)\s*\(", text))
        calls = [c for c in calls if words.issuperset(re.findall(r"MPIX?_\w+", declare(c)))]
    if what == "slots":
        write_slots(calls)
    elif what == "ids":
        write_ids(calls, zlib.crc32(open(path, "rb").read()))
    elif what == "host":
        write_host(calls)
    else:
        write_shims(calls, functions, open(template).read().split("*/\n", 2)[-1])


if __name__ == "__main__":
    main(*sys.argv[1:])
