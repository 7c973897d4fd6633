import type { ContentPart } from '@toolloop/core';

/** A file's name, which providers ask for; where it has none, one with the ending its media type suggests. */
export function fileName({ name, mediaType }: Extract<ContentPart, { readonly type: 'file' }>): string {
  return name ?? `file.${/^[^/]+\/([a-z0-9]+)/.exec(mediaType)?.[1] ?? 'bin'}`;
}
