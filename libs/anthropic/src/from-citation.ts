import { isWebAddress, type Citation } from '@toolloop/core';
import type { WireObject } from '@toolloop/wire';

/**
 * A citation of a text block (https://platform.claude.com/docs/en/build-with-claude/citations): of a web page, a search result, or a document that the user
 * sent. It stands for all of the block.
 */
export function fromCitation(citation: WireObject, place: { readonly start: number; readonly end: number }): Citation {
  const { url, title, document_title: document, source, cited_text: quote } = citation;
  const name = [title, document].find((value) => typeof value === 'string' && value !== '');
  return {
    ...(isWebAddress(url) ? { url } : isWebAddress(source) && { url: source }),
    ...(typeof name === 'string' && { title: name }),
    ...(typeof source === 'string' && !isWebAddress(source) && { source }),
    ...(typeof quote === 'string' && { quote }),
    ...(place.end > place.start && place),
  };
}
