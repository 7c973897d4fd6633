import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import type { StagedPackage } from './packages.js';

/** The tokens of each package when the reports of its API were last written. */
const REPORT = 'tools/reports/tokens.json';

type Tokens = Readonly<Record<string, number>>;

/**
 * Prints the tokens of each package and their growth since the reports were written, for those who
 * decide about a release: no check fails on them. Comments and white space do not count, so that
 * neither a docstring nor a shorter line changes the figure.
 */
export function printTokens(staged: readonly StagedPackage[]): void {
  const before = writtenTokens();
  for (const [name, count] of Object.entries(countTokens(staged)))
    console.log(`${name}: ${count} tokens${growthSince(before[name], count)}`);
}

/** Writes the tokens of each package, with which later ones are compared. */
export function writeTokens(staged: readonly StagedPackage[]): void {
  writeFileSync(REPORT, `${JSON.stringify(countTokens(staged), null, 2)}\n`);
}

function growthSince(before: number | undefined, count: number): string {
  if (before === undefined) return ', a new package';
  const growth = count - before;
  return growth === 0
    ? ''
    : `, ${growth > 0 ? '+' : ''}${growth} (${((100 * growth) / before).toFixed(1)} %)`;
}

function writtenTokens(): Tokens {
  const written: unknown = existsSync(REPORT) ? JSON.parse(readFileSync(REPORT, 'utf8')) : {};
  return isTokens(written) ? written : {};
}

function isTokens(written: unknown): written is Tokens {
  return (
    typeof written === 'object' &&
    written !== null &&
    Object.values(written).every((count) => typeof count === 'number')
  );
}

function countTokens(staged: readonly StagedPackage[]): Tokens {
  return Object.fromEntries(
    staged.map(({ manifest, source }) => [manifest.name, tokensBelow(join(source, 'src'))]),
  );
}

function tokensBelow(folder: string): number {
  if (!existsSync(folder)) return 0;
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.tsx?$/.test(file),
  );
  return files.reduce(
    (sum, file) => sum + tokensIn(file, readFileSync(join(folder, file), 'utf8')),
    0,
  );
}

/**
 * Templates and regular expressions are scanned by the parser alone, so that leaves of the tree are
 * counted, not results of a scanner.
 */
function tokensIn(file: string, text: string): number {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  let count = 0;
  const visit = (node: ts.Node): void => {
    const children = node
      .getChildren(source)
      .filter(
        ({ kind }) => kind < ts.SyntaxKind.FirstJSDocNode || kind > ts.SyntaxKind.LastJSDocNode,
      );
    if (children.length === 0 && node.getWidth(source) > 0) count += 1;
    children.forEach(visit);
  };
  visit(source);
  return count;
}
