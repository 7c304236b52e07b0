/**
 * Assertions in loops of thousands: their message is created only for a failure, because creating it costs
 * more than the test.
 */

/**
 * Runs an assertion.
 * @throws an Error with `message()` for its message where it fails, and the failure as its cause
 */
export function withMessage(check: () => void, message: () => string): void {
  try {
    check();
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${message()}`, { cause: error });
  }
}
