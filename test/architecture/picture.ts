import { CORE_FOLDERS, LAYERS } from './layers.js';

/** The document that shows the pictures. */
export const DOCUMENT = 'docs/architecture.md';

/**
 * The picture of the layers as Mermaid text, made from the table that the architecture test holds:
 * an arrow leads from a library to what it may import. An arrow that follows from others is left
 * out.
 */
export function layersPicture(existing: readonly string[]): string {
  const rows = Object.keys(LAYERS).filter((library) => existing.includes(library));
  const arrows = rows.flatMap((library) =>
    directlyAllowed(library)
      .filter((allowed) => rows.includes(allowed))
      .map((allowed) => `  ${library} --> ${allowed}`),
  );
  return [
    'flowchart BT',
    ...rows.map((library) => `  ${library}["${nameOf(library)}"]`),
    ...arrows,
  ].join('\n');
}

/**
 * The folders of core in the order of the data: a folder imports only itself and the folders before
 * it.
 */
export function foldersPicture(): string {
  return [
    'flowchart LR',
    `  ${CORE_FOLDERS.map((folders) => folders.join(' & ')).join(' --> ')}`,
  ].join('\n');
}

/**
 * A document with its pictures made anew: each stands as a Mermaid block behind a comment with its
 * name.
 */
export function withPictures(document: string, pictures: Readonly<Record<string, string>>): string {
  return Object.entries(pictures).reduce(
    (text, [name, picture]) =>
      text.replace(
        new RegExp(`(<!-- picture: ${name} -->\\n+)\`\`\`mermaid\\n[^]*?\`\`\``),
        (_whole, marker: string) => {
          return `${marker}\`\`\`mermaid\n${picture}\n\`\`\``;
        },
      ),
    document,
  );
}

/** The command line is the one package without the scope: people type its name. */
function nameOf(library: string): string {
  return library === 'cli' ? 'toolloop' : `@toolloop/${library}`;
}

function directlyAllowed(library: string): readonly string[] {
  const allowed = LAYERS[library] ?? [];
  return allowed.filter((one) => !allowed.some((other) => LAYERS[other]?.includes(one)));
}
