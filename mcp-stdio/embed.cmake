# cmake -DOUT=view_html.c -DFILE=run.html -P embed.cmake: writes the file as a C string.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
string(REGEX REPLACE "(....................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "/* Made by embed.cmake. */\n#include \"mcp-stdio/view.h\"\n\nconst char view_html[] = {\n${bytes}'\\0'\n};\n")
