// source.mjs: C files of the tree, and their text without comments and literals.
import fs from 'node:fs';
import path from 'node:path';

export const folders = ['common', 'proto', 'mcp-stdio', 'supervisord'];

// Files below FOLDERS of ROOT whose name ends as wanted; names relative to ROOT.
export function filesOf(root, names, wanted) {
    const found = [];
    const walk = name => {
        for (const entry of fs.readdirSync(path.join(root, name), { withFileTypes: true })) {
            const below = path.join(name, entry.name);
            if (entry.isDirectory() && entry.name !== 'node_modules')
                walk(below);
            else if (entry.isFile() && wanted(entry.name))
                found.push(below);
        }
    };
    for (const name of names)
        if (fs.existsSync(path.join(root, name)))
            walk(name);
    return found.sort();
}

export const isC = name => /\.[ch]$/.test(name);

// Comments become spaces (line ends stay); so do the insides of literals unless KEEP_LITERALS.
export function stripped(text, keepLiterals = false) {
    const blank = part => part.replace(/[^\n]/g, ' ');
    return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g, part => {
        if (part.startsWith('/'))
            return blank(part);
        return keepLiterals ? part : part[0] + blank(part.slice(1, -1)) + part[0];
    });
}

export function lineAt(text, index) {
    return text.slice(0, index).split('\n').length;
}

// Lines of a rules file without comments, as words.
export function rules(file) {
    return fs.readFileSync(file, 'utf8').split('\n').map((line, index) => ({ number: index + 1, text: line.replace(/#.*/, '').trim() }))
        .filter(line => line.text).map(line => ({ number: line.number, words: line.text.split(/\s+/) }));
}

export function report(problems) {
    for (const problem of problems)
        console.error(problem);
    if (problems.length)
        console.error(`${problems.length} problem${problems.length > 1 ? 's' : ''}`);
    process.exitCode = problems.length ? 1 : 0;
}
