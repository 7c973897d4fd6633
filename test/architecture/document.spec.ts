import { describe, expect, it } from '@jest/globals';
import { membersOf, rowsIn, sectionOf, statesIn } from './document.js';

describe('the states of a run in the document', () => {
  const section = sectionOf('The states of a run');

  it('are those that a run can have', () => {
    expect(statesIn(section).toSorted()).toEqual([...membersOf('RunStatus')].toSorted());
  });

  it('come with every reason for which a run ends', () => {
    expect(rowsIn(section)).toEqual(membersOf('FinishReason'));
  });
});
