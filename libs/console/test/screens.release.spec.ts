import { describe, expect, it } from '@jest/globals';
import { fitInEveryState, showFixtures } from './screens-suite.js';

const shown = showFixtures();

fitInEveryState(shown, ['light', 'dark']);

describe('a run of 10,000 events', () => {
  it('has at most 200 rows in the document in each of its readings', async () => {
    const page = await shown.open(1280);
    for (const [reading, rows] of [
      ['story', 'article'],
      ['events', '.virtual li'],
      ['timeline', 'rect'],
    ]) {
      await page.goto('about:blank');
      await page.goto(shown.at(`state=long&theme=light#/runs/a-run/${reading}`));
      await page.getByText('event 10,000 of 10,000').waitFor();
      const many = await page.locator(rows ?? '').count();
      expect([reading, many > 10, many <= 200]).toEqual([reading, true, true]);
    }
    await page.close();
  });
});
