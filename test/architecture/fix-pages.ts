import { type Finding, pageOfFinding } from '../../libs/protocol/src/errors.js';
import { writtenFindings } from './findings.js';

const BLOCK = /<!-- findings -->[^]*?<!-- \/findings -->/;

/** Everything the sources can find at start, by the page that explains it, each problem once. */
export function findingsByPage(): ReadonlyMap<string, readonly Pick<Finding, 'problem' | 'remedy'>[]> {
  const pages = new Map<string, Map<string, Pick<Finding, 'problem' | 'remedy'>>>();
  for (const { problem: written, remedy } of writtenFindings().filter(({ problem }) => /\s/.test(problem))) {
    const problem = /^(?:is|has|allows|never|cannot|the|items)\b/.test(written) ? `"…" ${written}.` : written;
    const page = pageOfFinding({ problem });
    const found = pages.get(page) ?? new Map<string, Pick<Finding, 'problem' | 'remedy'>>();
    if (!found.has(problem)) found.set(problem, { problem, remedy });
    pages.set(page, found);
  }
  return new Map(
    [...pages].map(([page, found]) => [page, [...found.values()].toSorted((one, other) => (one.problem < other.problem ? -1 : 1))]),
  );
}

/** A page with the table of its findings as the sources have them now; the page as it is where it has no place for one. */
export function withFindings(page: string, findings: readonly Pick<Finding, 'problem' | 'remedy'>[]): string {
  const rows = findings.map(({ problem, remedy }) => `| ${cellOf(problem)} | ${cellOf(remedy)} |`);
  const table = ['<!-- prettier-ignore -->', '| what is found | what to do |', '| --- | --- |', ...rows].join('\n');
  return page.replace(BLOCK, () => `<!-- findings -->\n\n${table}\n\n<!-- /findings -->`);
}

/** A text as a cell shows it, in Markdown as in Vue: both read more into it than it says. */
function cellOf(text: string): string {
  const parts = text.split(/(`[^`]*`)/);
  return parts
    .map((part) => (part.startsWith('`') ? part : escaped(part)))
    .join('')
    .replaceAll('|', '\\|');
}

function escaped(text: string): string {
  return text
    .replaceAll('<', '&lt;')
    .replaceAll('{{', '{&#8203;{')
    .replaceAll(/[*_[\]]/g, '\\$&');
}
