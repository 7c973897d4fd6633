import type { Shape } from './shape.js';

/** A figure of the shape that a rule holds. */
export type Measure = keyof Omit<Shape, 'files'>;

/**
 * The most that each figure may be, in every library and in the demo. A rule stands for something
 * that a reader feels: a function that fits on a page, an import that leads one way, a docstring
 * that says who does what. The number of files and lines is not among them: a figure that is met
 * without making the code easier to read is a defect.
 */
export const RULES: Readonly<Record<Measure, number>> = {
  longestFunction: 60,
  functionParameters: 5,
  constructorParameters: 8,
  largestTypeCircle: 3,
  largestValueCircle: 0,
  oddFileNames: 0,
  ellipticDocstrings: 0,
  throwsWithoutTag: 0,
  withoutExample: 0,
  riddles: 0,
};
