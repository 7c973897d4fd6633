import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { DOCUMENT, foldersPicture, layersPicture, withPictures } from './picture.js';
import { LIBRARIES } from './layers.js';

const pictures = { layers: layersPicture(LIBRARIES), folders: foldersPicture() };

describe('the pictures of the architecture', () => {
  it('are those that the table of layers gives: UPDATE_PICTURES=1 writes them anew', () => {
    const current = withPictures(readFileSync(DOCUMENT, 'utf8'), pictures);
    if (process.env['UPDATE_PICTURES'] === '1') writeFileSync(DOCUMENT, current);
    expect(readFileSync(DOCUMENT, 'utf8')).toBe(current);
    for (const picture of Object.values(pictures)) expect(current).toContain(picture);
  });

  it('are replaced at their marks, and nothing else is', () => {
    const document =
      'before\n<!-- picture: layers -->\n\n```mermaid\nold\n```\n\n```mermaid\nother\n```\n';
    expect(withPictures(document, { layers: 'new' })).toBe(document.replace('old', 'new'));
  });
});
