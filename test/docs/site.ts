import { readFileSync } from 'node:fs';

interface Section {
  readonly text: string;
  readonly items: readonly { readonly text: string; readonly link: string }[];
}

/** The navigation of the documentation site, which its configuration reads as well. */
export const SIDEBAR = JSON.parse(
  readFileSync('docs/.vitepress/sidebar.json', 'utf8'),
) as readonly Section[];

/** Matches the pages that only the site has: its navigation leads to each. */
export const SITE =
  /^docs\/(?:start|learn|guides|fix|from|reference|security|performance|console|index)[/.]/;

/**
 * The pages of the site that are made of one package's README or lie elsewhere in the repository,
 * by their address.
 */
export const ELSEWHERE = JSON.parse(
  readFileSync('docs/.vitepress/elsewhere.json', 'utf8'),
) as Readonly<Record<string, string>>;

/** The page of the repository at an address of the site. */
export function pageAt(link: string): string {
  return ELSEWHERE[link] ?? `docs${link.endsWith('/') ? `${link}index` : link}.md`;
}
