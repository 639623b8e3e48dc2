/* highlight.js: light colouring of code, line by line: comments, strings, numbers and words that languages keep for themselves.
 * It never fails: what it doesn't know stays as it is. */
import { put, el } from './base.js';

const words = {
  c: 'auto bool break case char const continue default do double else enum extern false float for goto if inline int long nullptr NULL register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while class namespace new delete public private protected template this throw try catch using virtual override uint8_t uint32_t uint64_t size_t int64_t',
  js: 'as async await break case catch class const continue debugger default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private protected public readonly return set static super switch this throw true try type typeof undefined var void while yield',
  py: 'and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return self True try while with yield',
  sh: 'case do done elif else esac export fi for function if in local read return set shift then unset until while echo exit',
  go: 'break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var string int error bool byte',
  rs: 'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while',
  java: 'abstract boolean break case catch class const continue default do double else enum extends false final finally float for if implements import instanceof int interface long new null package private protected public return short static super switch this throw throws true try void volatile while var fun val when object string namespace using override readonly async await',
  rb: 'alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require',
  sql: 'select from where insert into values update delete create table index view join left right inner outer on as and or not null primary key references group by order having limit distinct union all begin commit rollback',
  none: '',
};
const families = [
  ['c', 'slash', 'c h cc cpp cxx hpp hh m mm glsl'], ['js', 'slash', 'js mjs cjs ts tsx jsx json jsonc'], ['go', 'slash', 'go'], ['rs', 'slash', 'rs'],
  ['java', 'slash', 'java kt kts cs swift scala dart php groovy'], ['none', 'slash', 'css scss less proto'],
  ['py', 'hash', 'py pyi'], ['sh', 'hash', 'sh bash zsh fish mk'], ['rb', 'hash', 'rb'], ['none', 'hash', 'yml yaml toml ini conf cfg cmake txt dockerfile tf nix'],
  ['sql', 'dash', 'sql lua hs'],
];
const named = { Makefile: 'mk', Dockerfile: 'dockerfile', Rakefile: 'rb', Gemfile: 'rb', 'CMakeLists.txt': 'cmake' };
const LINE_MAX = 600;

const comments = { slash: '\\/\\/.*|\\/\\*(?:[^*]|\\*(?!\\/))*(?:\\*\\/)?', hash: '#.*', dash: '--.*' };
const rest = '|("(?:[^"\\\\]|\\\\.)*"?|\'(?:[^\'\\\\]|\\\\.)*\'?|`(?:[^`\\\\]|\\\\.)*`?)|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)';

const known = new Map();
for (const [list, comment, endings] of families)
  for (const ending of endings.split(' '))
    known.set(ending, { words: new Set(words[list].split(' ')), source: '(' + comments[comment] + ')' + rest });

/* Of a file by its name, or null. */
export function languageOf(path) {
  const name = path.split('/').pop();
  return known.get(named[name] || name.split('.').pop().toLowerCase()) || null;
}

/* Puts LINE into NODE. */
export function putCode(node, line, language) {
  if (!language || line.length > LINE_MAX) {
    put(node, line);
    return;
  }
  const pattern = new RegExp(language.source, 'g');
  let at = 0;
  for (let match = pattern.exec(line); match; match = pattern.exec(line)) {
    const [all, comment, string, number, word] = match;
    const kind = comment ? 'c' : string ? 's' : number ? 'n' : word && language.words.has(word) ? 'k' : '';
    if (!kind) continue;
    if (match.index > at) put(node, line.slice(at, match.index));
    put(node.appendChild(el('span', { className: 't' + kind })), all);
    at = match.index + all.length;
  }
  if (at < line.length) put(node, line.slice(at));
}
