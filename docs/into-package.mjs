// Copies the pages of the site into @toolloop/core, whose tarball brings them: coding assistants
// read them there, and findings name them.
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const docs = fileURLToPath(new URL('.', import.meta.url));
const target = join(docs, '../libs/core/docs');
const sections = JSON.parse(readFileSync(join(docs, '.vitepress/sidebar.json'), 'utf8'));
const elsewhere = JSON.parse(readFileSync(join(docs, '.vitepress/elsewhere.json'), 'utf8'));

// Two builds of one checkout write into folders of their own, and each puts a whole one into place.
const own = mkdtempSync(join(target, '../.docs-'));
const written = join(own, 'written');
const lines = sections.flatMap(({ text, items }) => [
  `\n## ${text}\n`,
  ...items.flatMap((item) => copied(item)),
]);
writeFileSync(
  join(written, 'llms.txt'),
  `# Toolloop\n\n> Lets a language model use a NestJS application. Paths are relative to this file.\n${lines.join('\n')}\n`,
);
putIntoPlace();
rmSync(own, { recursive: true });

/**
 * Moves the pages there were out of the way, and the new ones there. Another build may have done
 * either in between, and its pages are as good.
 */
function putIntoPlace(attempt = 0) {
  failsBy(['ENOENT'], () => renameSync(target, join(own, `replaced-${attempt}`)));
  const isTaken = failsBy(['ENOTEMPTY', 'EEXIST', 'EPERM'], () => renameSync(written, target));
  if (isTaken && attempt < 20) putIntoPlace(attempt + 1);
}

/** Does the work, and tells whether it failed by one of these errors; any other is thrown. */
function failsBy(codes, work) {
  try {
    work();
    return false;
  } catch (error) {
    if (!codes.includes(error.code)) throw error;
    return true;
  }
}

/**
 * The line about a page, which has been copied. The README of another package is in that package.
 */
function copied({ text, link }) {
  const page = elsewhere[link];
  if (page?.startsWith('libs/')) return [`- ${text}: the README.md of the package`];
  if (page !== undefined && !page.startsWith('docs/')) return [];
  const path =
    page?.replace(/^docs\//, '') ??
    `${link.endsWith('/') ? `${link.slice(1)}index` : link.slice(1)}.md`;
  mkdirSync(dirname(join(written, path)), { recursive: true });
  cpSync(join(docs, path), join(written, path));
  return [`- [${text}](${path})`];
}
