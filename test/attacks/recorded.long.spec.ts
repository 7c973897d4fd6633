import { beforeAll, describe, expect, it } from '@jest/globals';
import { isRecordedThere, measureRecorded, type RecordedFigures, RECORDED, TASK_FILES } from './recorded.js';

const isThere = isRecordedThere();
const describeIfThere = isThere ? describe : describe.skip;

/** Each 25th: all of them take minutes, with `npm run attacks -- --recorded`. */
const SHARE = 25;

describeIfThere(`recorded tasks and attacks${isThere ? '' : ` (left out: ${RECORDED} is not there)`}`, () => {
  let figures: RecordedFigures;
  beforeAll(async () => {
    figures = await measureRecorded(RECORDED, SHARE);
  }, 120_000);

  it('are replayed as they were recorded, at every level', () => {
    const replayed = TASK_FILES.flatMap((name) => Object.values(figures.tasks[name] ?? {}));
    expect(replayed.map(({ unlike }) => unlike)).toEqual(replayed.map(() => 0));
    expect(replayed.every(({ changingTasks }) => changingTasks > 0)).toBe(true);
  });

  it('get through at a level that checks nothing, every attack of them', () => {
    const { attacks, effects, leaks } = figures.attacks.off;
    expect([attacks, effects]).toEqual([43, 43]);
    expect(leaks).toBeGreaterThan(0);
  });

  it.each(['effect', 'taint', 'provenance'] as const)('have no effect without an approval: %s', (level) => {
    expect(figures.attacks[level]).toMatchObject({ effects: 0, leaks: 0 });
  });

  it('get no stolen value out at `trifecta`, which lets attackers change things', () => {
    expect(figures.attacks.trifecta.leaks).toBe(0);
    expect(figures.attacks.trifecta.effects).toBeGreaterThan(0);
  });
});
