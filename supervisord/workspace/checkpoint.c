#include "workspace/checkpoint.h"

#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

/* What both scripts share. Names are ended by NUL and sorted by bytes, so that lists can be
 * compared by comm; a record of a list is a name, \001, its type and what tells a change.
 *
 * ignored: what the repositories' own rules leave out, by git with a git folder of ours and a copy
 * of the agent's index, so that files which are ignored but tracked are kept. When git refuses that
 * index, or takes long, nothing of that repository is left out.
 *
 * list: an entry that changed in the last two seconds gets a record that no other list has, since
 * the file system's clock can't tell one change from the next. */
static const char common[] =
    "umask 022\n"
    "export LC_ALL=C tmp=/tmp/checkpoint\n"
    "mkdir -p $tmp && cd / || exit 1\n"
    "if command -v zstd >/dev/null; then press='zstd -q -1' ext=zst; else press='gzip -1' ext=gz; "
    "fi\n"
    "unpress() { if [ -e \"$1.zst\" ]; then zstd -qdc \"$1.zst\"; else gzip -dc \"$1.gz\"; fi; }\n"
    "ignored() {\n"
    "  find workspace -maxdepth 5 -name .git -type d -prune -exec sh -c '\n"
    "    for git; do\n"
    "      repo=${git%/.git}\n"
    "      case $repo in *\"\n\"*) continue ;; esac\n"
    "      for format in sha1 sha256; do\n"
    "        look=$tmp/$format\n"
    "        [ -d $look ] || git init -q --bare --object-format=$format $look || continue\n"
    "        rm -f $look/index $look/info/exclude\n"
    "        for each in index info/exclude; do\n"
    "          [ -L \"$git/$each\" ] || [ ! -f \"$git/$each\" ] || cp \"$git/$each\" $look/$each\n"
    "        done\n"
    "        GIT_DIR=$look GIT_WORK_TREE=$repo timeout 60 git -c core.fsmonitor=false ls-files "
    "--others --ignored --directory -z --exclude-standard >$tmp/found || continue\n"
    "        tr \"\\0\\n\" \"\\n\\1\" <$tmp/found | grep -v \"$(printf \"\\1\")\" |\n"
    "          while IFS= read -r path; do printf \"%s/%s\\n\" \"$repo\" \"${path%/}\"; done\n"
    "        break\n"
    "      done\n"
    "    done' sh {} + 2>/dev/null | head -n 500 >$tmp/ignored\n"
    "}\n"
    "list() {\n"
    "  set --\n"
    "  sed 's/[][*?\\\\]/\\\\&/g' <$tmp/ignored >$tmp/patterns\n"
    "  while IFS= read -r path; do set -- \"$@\" -path \"$path\" -prune -o; done <$tmp/patterns\n"
    "  now=$(date +%s)\n"
    "  find workspace home/agent \"$@\" -path home/agent/.cache -prune -o "
    "-type f -size +262144k -fprintf $tmp/large . -o "
    "-newerct \"@$((now - 2))\" -printf \"%p\\001%y new $mark\\0\" -o "
    "-printf '%p\\001%y %m %s %T@ %C@ %i\\0' 2>$tmp/unlisted | sort -z >$tmp/list\n"
    "}\n"
    "names() { sed -z 's/\\x01[^\\x01]*$//'; }\n"
    "types() { sed -z 's/\\x01\\(.\\)[^\\x01]*$/\\x01\\1/' | sort -z; }\n"
    "count() { tr -dc '\\0' | wc -c; }\n";

static const char make[] =
    "number=$1 mark=$1 parent=$2 keep=\" $3 \" new=/checkpoints/new\n"
    "ulimit -f $4 || exit 1\n"
    "chmod 755 /checkpoints && cd /checkpoints || exit 1\n"
    "for each in *; do case $keep in *\" $each \"*) ;; *) rm -rf -- \"$each\" ;; esac; done\n"
    "mkdir $new && cd / || exit 1\n"
    "ignored\n"
    "list\n"
    ": >$tmp/parent\n"
    "[ $parent = 0 ] || unpress /checkpoints/$parent/list >$tmp/parent || exit 1\n"
    "comm -z -13 $tmp/parent $tmp/list | names >$tmp/changed\n"
    "comm -z -23 $tmp/parent $tmp/list | names >$tmp/gone\n"
    "if [ $parent != 0 ] && [ ! -s $tmp/changed ] && [ ! -s $tmp/gone ]; then\n"
    "  rmdir $new; echo same=1; exit 0\n"
    "fi\n"
    "state='^home/agent/.*\\.(db|sqlite3?)(-wal|-journal|-shm)?$'\n"
    "names <$tmp/list | grep -zE \"$state\" | grep -zv -e '-shm$' >$tmp/state\n"
    "grep -zvE \"$state\" $tmp/changed >$tmp/files\n"
    /* Ends with 1 when a file changed while it was read: the next checkpoint has it again. */
    "pack() {\n"
    "  tar --null --no-recursion --ignore-failed-read --warning=no-file-changed -T $tmp/$1 "
    "-I \"$press\" -cf $new/$1.tar.$ext 2>$tmp/$1.errors\n"
    "  [ $? -le 1 ] || { tail -n 3 $tmp/$1.errors >&2; exit 1; }\n"
    "}\n"
    "stamp() { xargs -0r stat -c '%n %s %y %z' -- <$tmp/state; }\n"
    "pack files\n"
    /* A database and its log belong together: they are read again when either changed meanwhile. */
    "torn=1\n"
    "for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n"
    "  before=$(stamp 2>&1)\n"
    "  pack state\n"
    "  [ \"$before\" != \"$(stamp 2>&1)\" ] || { torn=0; break; }\n"
    "done\n"
    "$press <$tmp/list >$new/list.$ext || exit 1\n"
    "unreadable=$(cat $tmp/unlisted $tmp/files.errors | grep -c 'denied')\n"
    "large=0; [ ! -e $tmp/large ] || large=$(wc -c <$tmp/large)\n"
    "bytes=$(cat $new/* | wc -c)\n"
    "sync $new/* $new && mv $new /checkpoints/$number && sync /checkpoints || exit 1\n"
    "echo bytes=$bytes entries=$(count <$tmp/list) large=$large unreadable=$unreadable "
    "torn=$torn end=1\n";

/* What is ignored now stays, but for what the checkpoints have under the same names. */
static const char restore[] =
    "mark=0\n"
    "for last in $1; do :; done\n"
    "open_up() { find workspace home/agent -type d ! -perm -700 -exec chmod u+rwx {} +; }\n"
    /* Removes what has no place in list $1: by name and type, deepest first. */
    "cut() {\n"
    "  open_up; list\n"
    "  types <$tmp/list >$tmp/here\n"
    "  comm -z -23 $tmp/here $1 | names | sort -zr | xargs -0r rm -df -- 2>/dev/null\n"
    "}\n"
    "open_up; ignored\n"
    "for each in $1; do\n"
    "  unpress /checkpoints/$each/list | types >$tmp/want.$each\n"
    "  [ -s $tmp/want.$each ] || exit 1\n"
    "  names <$tmp/want.$each | tr '\\0\\n' '\\n\\1' | sort >$tmp/names\n"
    "  sort $tmp/ignored | comm -12 - $tmp/names | tr '\\n' '\\0' | xargs -0r rm -rf --\n"
    "  sort $tmp/ignored | comm -23 - $tmp/names >$tmp/left && mv $tmp/left $tmp/ignored\n"
    "done\n"
    ": >$tmp/nothing\n"
    "cut $tmp/nothing\n"
    "for each in $1; do\n"
    "  [ $each = ${1%% *} ] || cut $tmp/want.$each\n"
    "  tar -xpf /checkpoints/$each/files.tar.* || exit 1\n"
    "done\n"
    "tar -xpf /checkpoints/$last/state.tar.* || exit 1\n"
    "list\n"
    "types <$tmp/list | comm -z -13 - $tmp/want.$last | count >$tmp/missing\n"
    "sync -f workspace home/agent || exit 1\n"
    "echo missing=$(cat $tmp/missing) end=1\n";

/* Folders that the agent made unreadable are its uid's own. */
static const char clear[] = "chmod -R u+rwX -- \"$@\" 2>/dev/null\n"
                            "exec find \"$@\" -mindepth 1 -depth -delete\n";

static void add(struct git_command *command, char *arg)
{
    BUG_ON(command->argc + 1 >= GIT_ARGV_MAX);
    command->argv[command->argc++] = arg;
    command->argv[command->argc] = NULL;
}

static void begin(struct git_command *command, const char *head, const char *body)
{
    *command = (struct git_command){ .argc = 0 };
    add(command, mem_strdup("sh"));
    add(command, mem_strdup("-c"));
    add(command, mem_printf("%s%s", head, body));
    add(command, mem_strdup("sh"));
}

void checkpoint_make_command(struct git_command *command, const struct checkpoint_make *options)
{
    begin(command, common, make);
    add(command, mem_printf("%" PRIu32, options->number));
    add(command, mem_printf("%" PRIu32, options->parent));
    add(command, mem_strdup(options->keep));
    add(command, mem_printf("%" PRIu64, options->max_bytes / 512));
}

void checkpoint_restore_command(struct git_command *command, const char *chain)
{
    begin(command, common, restore);
    add(command, mem_strdup(chain));
}

void checkpoint_clear_command(struct git_command *command, const char *folders)
{
    begin(command, "", clear);
    while (*folders != '\0') {
        size_t len = strcspn(folders, " ");

        add(command, mem_strndup(folders, len));
        folders += len + (folders[len] == ' ');
    }
}

/* The number behind "NAME=" in the one line; false when it isn't there. */
static bool number_of(const char *line, const char *name, uint64_t *number)
{
    size_t len = strlen(name);

    while (*line != '\0') {
        size_t word = strcspn(line, " \n");

        if (word > len && strncmp(line, name, len) == 0 && line[len] == '=') {
            AUTO_FREE
            char *digits = mem_strndup(line + len + 1, word - len - 1);

            return str_parse_u64(digits, UINT64_C(1) << 53, number);
        }
        line += word + (line[word] != '\0');
    }
    return false;
}

int checkpoint_made_parse(const struct buf *output, struct checkpoint_made *made, struct error *err)
{
    const char *line = buf_text(output);
    uint64_t same = 0;
    uint64_t torn = 0;
    uint64_t end = 0;

    *made = (struct checkpoint_made){ .same = number_of(line, "same", &same) };
    if (made->same)
        return 0;
    if (!number_of(line, "bytes", &made->bytes) || !number_of(line, "entries", &made->entries) ||
        !number_of(line, "large", &made->large) ||
        !number_of(line, "unreadable", &made->unreadable) || !number_of(line, "torn", &torn) ||
        !number_of(line, "end", &end))
        return error_set(err, ERR_SYSTEM, 0, "a checkpoint's command ended in the midst of it");
    made->torn = torn != 0;
    return 0;
}
