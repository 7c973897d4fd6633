import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { filesOf } from './imports.js';
import { riddlesIn } from './words.js';

/** The title of a test or of a group of tests; expressions in it stand as `%s`. */
export interface Title {
  readonly of: 'test' | 'group';
  readonly title: string;
  readonly file: string;
}

const FUNCTIONS: ReadonlyMap<string, Title['of']> = new Map([
  ['it', 'test'],
  ['test', 'test'],
  ['describe', 'group'],
]);

/** Where one of them is called: a text without it is not parsed. */
const CALL = /\b(?:it|test|describe)(?:\.\w+)*[(`]/;

/** The titles in the files below a folder, as far as they are written down as texts. */
export function titlesOf(folder: string): readonly Title[] {
  return filesOf(folder).flatMap((file) => titlesIn(readFileSync(file, 'utf8'), file));
}

export function titlesIn(text: string, file = 'titles.ts'): readonly Title[] {
  const titles: Title[] = [];
  const visit = (node: ts.Node): void => {
    const of =
      ts.isCallExpression(node) && node.arguments.length > 1
        ? FUNCTIONS.get(calledName(node.expression))
        : undefined;
    if (of && ts.isCallExpression(node))
      titles.push(...textOf(node.arguments[0]).map((title) => ({ of, title, file })));
    ts.forEachChild(node, visit);
  };
  if (CALL.test(text)) visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest));
  return titles;
}

/** The function that a chain such as `it.skip.each(rows)` begins with. */
function calledName(callee: ts.Expression): string {
  if (ts.isIdentifier(callee)) return callee.text;
  if (ts.isTaggedTemplateExpression(callee)) return calledName(callee.tag);
  return ts.isPropertyAccessExpression(callee) || ts.isCallExpression(callee)
    ? calledName(callee.expression)
    : '';
}

function textOf(title: ts.Expression | undefined): readonly string[] {
  if (title && ts.isStringLiteralLike(title)) return [title.text];
  if (!title || !ts.isTemplateExpression(title)) return [];
  return [title.head.text + title.templateSpans.map(({ literal }) => `%s${literal.text}`).join('')];
}

/**
 * Whether the title of an `it` is a whole sentence without riddles: it begins with a finite verb,
 * whose subject is the group ("a run" › "ends with its budget"), or it has a subject and a verb of
 * its own ("a run ends with its budget", "when its budget is used up, the run ends"). A title that
 * begins with a preposition, a relative clause or a participle ("of two tenants", "that hangs",
 * "made twice") leaves the verb to the reader's guess.
 */
export function isWholeSentence(title: string): boolean {
  if (riddlesIn(title).length > 0) return false;
  const words = title.replace(/^invariants? [\d, and]+: ?/, '').split(/\s+/);
  const [first = ''] = words;
  if (ADVERBS.has(first)) return isFinite(words[1] ?? '');
  if (isFinite(first) || VERBS_AND_NOUNS.has(first)) return true;
  if (CONJUNCTIONS.has(first)) return hasMainClause(title);
  return isSubject(first) && words.slice(1).some(isFinite);
}

/** A subordinate clause needs a main one after a comma: "when the store is full, the run ends". */
function hasMainClause(title: string): boolean {
  return title
    .split(', ')
    .slice(1)
    .some(
      (clause) =>
        isSubject(clause.split(' ')[0] ?? '') && clause.split(' ').slice(1).some(isFinite),
    );
}

/** A determiner, a pronoun, a number, a name in code or capitals, or what stands in for one. */
function isSubject(word: string): boolean {
  return DETERMINERS.has(word) || /^([`"%$A-Z\d]|\w+\()/.test(word);
}

function isFinite(word: string): boolean {
  const bare = word.replace(/[,.:;]$/, '');
  return (
    VERBS.has(bare) ||
    (/^[a-z-]{2,}s$/.test(bare) && !/(ss|us|ous|'s)$/.test(bare) && !NOUNS.has(bare))
  );
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

const ADVERBS = wordsOf('never always still also only once often seldom neither');
const CONJUNCTIONS = wordsOf(
  'when while after before where until once if as since unless however whatever',
);
const DETERMINERS =
  wordsOf(`a an the this these it its they one two three four five ten twenty no none nothing neither all each every any both
  another other others some such many most few everything something whatever`);
/** Words that are verbs at the start of a title and nouns elsewhere. */
const VERBS_AND_NOUNS = wordsOf(
  'names numbers labels words types tools parts details stores answers counts records',
);
/** Words that end in s and are no verbs in the third person. */
const NOUNS =
  wordsOf(`this its as yes whose always perhaps besides towards afterwards sometimes ones others tools names types words labels instances
  texts values parts numbers strings objects arguments bytes characters minutes seconds messages events models stores details cents others theirs ours plus`);
/** Finite verbs that do not end in s: auxiliaries, and verbs whose subject is a plural. */
const VERBS =
  wordsOf(`is are was were has have had does do did can cannot may might must will would shall should
  hold have end keep come start begin leave let name say count tell refuse go mean stay see show need sign become lose make run get gain know pay share lead appear
  pollute join swap give remember offer bring take agree fill ask stop stand report change reckon cover carry release perform wait block import read wear put find fail
  answer return reach list add use look work hear call throw accept reject send follow compile resolve decide match stream print write differ cost fit group point
  receive contain behave survive pass belong`);
