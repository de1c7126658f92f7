"""What is deployed, rendered and checked: the chart's manifests, and the file of compose."""
