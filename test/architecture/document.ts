import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DOCUMENT } from './picture.js';
import { filesOf } from './imports.js';

/** Reads one section of the architecture's document, without its heading. */
export function sectionOf(heading: string, document = readFileSync(DOCUMENT, 'utf8')): string {
  const section = document.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`${DOCUMENT} has no section "${heading}".`);
  return section.slice(heading.length);
}

/** The lines of a numbered list, each with the files to which it links, as paths from the root. */
export function routeIn(section: string): readonly (readonly string[])[] {
  const lines = section.split('\n').filter((line) => /^\d+\. /.test(line));
  return lines.map((line) =>
    [...line.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => join(dirname(DOCUMENT), target)),
  );
}

/** The states that a Mermaid state diagram names, without the beginning and the end. */
export function statesIn(section: string): readonly string[] {
  const arrows = [...section.matchAll(/^ {2}(\S+) --> ([^:\s]+)/gm)].flatMap(
    ([, from = '', to = '']) => [from, to],
  );
  return [...new Set(arrows)].filter((state) => state !== '[*]');
}

/** The words in the first column of a Markdown table. */
export function rowsIn(section: string): readonly string[] {
  return [...section.matchAll(/^\| `(\w+)`/gm)]
    .map(([, word = '']) => word)
    .filter((word) => word !== 'finishReason');
}

/**
 * The members of a union of string literals that a library declares.
 *
 * @throws Error where no library declares it, or more than one.
 */
export function membersOf(type: string): readonly string[] {
  const sources = filesOf('libs').filter((file) => /^libs\/[^/]+\/src\//.test(file));
  const text = sources.map((file) => readFileSync(file, 'utf8')).join('\n');
  const declarations = [...text.matchAll(new RegExp(`^export type ${type} =([^;]*);`, 'gm'))];
  const [declaration, ...more] = declarations.map(([, members = '']) => members);
  if (declaration === undefined || more.length > 0)
    throw new Error(`${type} is declared ${declarations.length} times.`);
  return [...declaration.matchAll(/'(\w+)'/g)].map(([, member = '']) => member);
}
