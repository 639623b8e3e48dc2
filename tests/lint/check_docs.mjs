// check_docs.mjs [ROOT]: what README and docs/ name exists: files, commands of sandboxctl, tools, methods, settings, environment variables.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesOf, folders, isC, lineAt, report } from './source.mjs';

const root = process.argv[2] ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const read = file => fs.existsSync(path.join(root, file)) ? fs.readFileSync(path.join(root, file), 'utf8') : '';
const sources = filesOf(root, folders, isC).map(read).join('\n') + read('proto/methods.def');
const quoted = new Set([...sources.matchAll(/"((?:\\.|[^"\\\n])*)"/g)].map(match => match[1]));
const tools = new Set([...sources.matchAll(/"(opencode_\w+)"/g)].map(match => match[1]));
const methods = new Set([...read('proto/methods.def').matchAll(/"([a-z]+\.[a-z]+)"/g)].map(match => match[1]));
const top = new Set(fs.readdirSync(root));
// Files of other programs.
const foreign = new Set(['config.json', 'claude_desktop_config.json', 'opencode.json', 'mcp.json']);
const problems = [];

function exists(name) {
    const clean = name.replace(/:\d+$/, '').replace(/\/$/, '');
    if (/[*<>{}…]|NAME|RUN|SESSION/.test(clean))
        return true; // a pattern
    return fs.existsSync(path.join(root, clean)) || fs.existsSync(path.join(root, 'supervisord', clean));
}

const documents = ['README.md', ...filesOf(root, ['docs'], name => name.endsWith('.md'))];
for (const document of documents) {
    const text = read(document);
    const complain = (match, what) => problems.push(`${document}:${lineAt(text, match.index)}: ${what}`);

    // Links to files of the tree.
    for (const match of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g))
        if (!/^[a-z]+:/.test(match[1]) && !fs.existsSync(path.join(root, path.dirname(document), match[1])))
            complain(match, `the link ${match[1]} leads nowhere`);

    // Code marks that are names.
    for (const match of text.matchAll(/`([^`\n]+)`/g)) {
        const name = match[1];
        if (/^[\w.-]+(\/[\w.*-]+)+\/?$/.test(name) && (top.has(name.split('/')[0]) || fs.existsSync(path.join(root, 'supervisord', name.split('/')[0])))) {
            if (!exists(name))
                complain(match, `there is no ${name}`);
        } else if (/^[\w-]+\.(c|h|sh|mjs|md|json|def)$/.test(name) && !exists(name) && !foreign.has(name) &&
            !filesOf(root, [...folders, 'docs', 'tests'], each => each === name).length) {
            complain(match, `there is no ${name}`);
        } else if (/^opencode_\w+$/.test(name) && !tools.has(name)) {
            complain(match, `there is no tool ${name}`);
        } else if (/^(run|session|secret|service|audit|system)\.[a-z]+$/.test(name) && !methods.has(name) && !quoted.has(name)) {
            complain(match, `there is no method ${name}`);
        } else if (/^SANDBOX_(MCP_)?[A-Z_]+$/.test(name) && !quoted.has(name) && !read('CMakeLists.txt').includes(name) &&
            !read('tests/run.sh').includes(name) && !read('docs/quickstart.sh').includes(name) && !read('tests/system/lab.mjs').includes(name)) {
            complain(match, `nothing reads ${name}`);
        } else if (quoted.has(`%s/${name}`)) {
            continue; // a file that a program makes
        } else if (/^(defaults|limits|sandbox|agents|workspace|web|log|egress)\.[\w.]+$/.test(name) && !quoted.has(name) &&
            !/\.(c|h)$/.test(name)) {
            complain(match, `there is no setting ${name}`);
        }
    }
    // Commands, in code marks and code blocks.
    const commands = [...read('supervisord/ctl/commands.c').matchAll(/"([a-z]+)"/g)].map(match => match[1]);
    for (const match of text.matchAll(/(?:`|^\s*(?:\$ )?|")sandboxctl"?(?: --[\w-]+)* ([a-z]+)/gm))
        if (!commands.includes(match[1]))
            complain(match, `there is no command sandboxctl ${match[1]}`);
    for (const match of text.matchAll(/\bsh ((?:docs|tests)\/[\w.-]+\.sh)/g))
        if (!exists(match[1]))
            complain(match, `there is no ${match[1]}`);
}
report(problems);
