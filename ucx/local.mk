# SPDX-License-Identifier: BSD-3-Clause
# The network: UCX, found at run time. Without its headers there is none.

ucx_with_sources = \
	%reldir%/connections.c \
	%reldir%/inner.h \
	%reldir%/interfaces.c \
	%reldir%/interfaces.h \
	%reldir%/library.c \
	%reldir%/library.h \
	%reldir%/messages.c \
	%reldir%/net.c \
	%reldir%/ucp.def
ucx_without_sources = %reldir%/none.c
EXTRA_DIST += $(ucx_with_sources) $(ucx_without_sources)

ucx_sources += %reldir%/net.h
if HAVE_UCX
ucx_sources += $(ucx_with_sources)
else
ucx_sources += $(ucx_without_sources)
endif
