import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * The folders that hold what was installed, built or reported, or what was recorded from outside.
 */
const SKIPPED =
  /(^|\/)(node_modules|dist|\.build|coverage|data|fixtures|tools\/reports|docs\/reference\/api)(\/|$)|^libs\/core\/docs(\/|$)/;

/**
 * A code span that names a file or a folder, from the root or from the page's own folder; patterns
 * such as `libs/*` are none.
 */
const NAMED_PATH = /^(?:\.ci|bench|docs|libs|scripts|src|test)\/[\w./-]*$/;

/** Lists every Markdown page of the repository, as paths from its root. */
export function pagesOfRepository(): readonly string[] {
  return globSync('**/*.md', { exclude: (path) => SKIPPED.test(path) }).toSorted();
}

/** Reads a page without its code blocks, in which nothing is a link. */
export function proseOf(page: string): string {
  return readFileSync(page, 'utf8').replaceAll(/^```[^]*?^```$/gm, '');
}

/** The links of a page that lead nowhere: to no file, or to no heading of one. */
export function brokenLinksOf(page: string): readonly string[] {
  const targets = [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return targets.filter(
    (target) => !/^(?:https?|mailto):/.test(target) && !leadsSomewhere(page, target),
  );
}

/** The files and folders that a page names in code spans and that do not exist. */
export function missingPathsOf(page: string): readonly string[] {
  const spans = [...proseOf(page).matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
  return spans.filter(
    (span) => NAMED_PATH.test(span) && !existsSync(span) && !existsSync(join(dirname(page), span)),
  );
}

/** The files that a page links to, as paths from the root of the repository. */
export function linkedFrom(page: string): readonly string[] {
  return [...proseOf(page).matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, target = '']) =>
    join(dirname(page), target),
  );
}

function leadsSomewhere(page: string, target: string): boolean {
  const [path = '', heading] = target.split('#');
  const file = path === '' ? page : join(dirname(page), path);
  return existsSync(file) && (heading === undefined || headingsOf(file).includes(heading));
}

/** The anchors of a page's headings, as GitHub makes them. */
function headingsOf(page: string): readonly string[] {
  return [...proseOf(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
