/* view.h: the page that hosts of MCP Apps show in place of a tool's result. */
#ifndef MCP_STDIO_VIEW_H
#define MCP_STDIO_VIEW_H

#define VIEW_URI "ui://sandbox-mcp/run.html"
#define VIEW_MIME_TYPE "text/html;profile=mcp-app"

/* view/run.html, made part of the program by the build. */
extern const char view_html[];

#endif
