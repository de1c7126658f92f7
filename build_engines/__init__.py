"""Makes what a talker is served with from its weights: calibrated trees and groups."""
